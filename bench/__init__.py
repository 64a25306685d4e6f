"""Benchmark harness and reproducibility suite for RAG KV-cache fusion."""

import os

__version__ = "0.1.0"

# OpenMP's barriers spin by default, which costs up to 20x where anything else runs on the cores; going to
# sleep at once costs a wake-up an operation, a tenth of a selective recomputation. So: spin shortly, well
# under a millisecond, then sleep. Has to be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

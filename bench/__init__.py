"""Benchmark harness and reproducibility suite for RAG KV-cache fusion."""

import os

__version__ = "0.1.0"

# OpenMP's barriers spin by default, which costs up to 20x where anything else runs on the cores.
# Has to be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

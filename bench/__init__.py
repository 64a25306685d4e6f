"""Benchmark harness and reproducibility suite for RAG KV-cache fusion."""

__version__ = "0.1.0"

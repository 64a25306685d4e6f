"""Numerical kernels of cache fusion: the torch reference of each, which the CPU path runs."""

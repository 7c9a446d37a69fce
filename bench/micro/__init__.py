"""Benchmarks of single kernels and of whole selections of ours, for pytest-benchmark."""

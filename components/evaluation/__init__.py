"""Benchmarks, metrics and their statistics."""

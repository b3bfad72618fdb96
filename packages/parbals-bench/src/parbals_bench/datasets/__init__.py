"""Benchmark datasets: their publishers' own files in, features and class numbers out."""

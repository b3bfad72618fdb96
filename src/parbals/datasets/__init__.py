"""Benchmark datasets, one file each: the publisher's own files in, features and class numbers out."""

"""Scores and posteriors in, B indices out."""

"""Evaluation of a model: expected and measured error, metrics, recall, and the report."""

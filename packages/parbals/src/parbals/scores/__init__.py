"""Predictive samples in, one number a point out."""

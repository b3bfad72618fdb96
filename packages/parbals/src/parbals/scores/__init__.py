"""Acquisition scores: one number per candidate, from predictive samples or in closed form."""

"""Predictive samples in, one number a point out."""

from parbals.numerics import keep_compiled

keep_compiled()

"""Class probabilities and their slopes by the library's own quadrature, every pair of classes."""

import numpy as np
from parbals.arrays import exact_products
from parbals.race import _hazards


def class_means(mean, variance, xp=np):
    """p (..., C) and J (..., C, C) of f_a ~ N(mean_a, variance_a), as in ``parbals.race``."""
    product, hazard = _hazards(xp.moveaxis(mean, -1, 0), xp.moveaxis(variance, -1, 0), xp)
    pulled = product * hazard  # (T, C, ...)
    probs = xp.moveaxis(pulled.sum(axis=0), 0, -1)
    total = probs.sum(axis=-1, keepdims=True)
    with exact_products(xp):
        crossed = xp.einsum("ta...,tb...->...ab", pulled, hazard) / total[..., None]
    apart = 1.0 - xp.eye(mean.shape[-1], dtype=mean.dtype)
    crossed = crossed * apart
    return probs / total, crossed.sum(axis=-1)[..., None] * (1.0 - apart) - crossed

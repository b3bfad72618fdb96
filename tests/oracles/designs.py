"""Designs on which posteriors are compared: each is hard in its own way."""

import numpy as np

from oracles.definition import Data, draw_labels


def design(name):
    n, d, n_classes, scale = {
        "fewer features than labels": (60, 4, 2, 1.0),
        "more features than labels": (25, 40, 2, 0.5),
        "five per cent positive": (100, 3, 2, 1.0),
        "separable": (40, 3, 2, 2.0),
        "four classes": (60, 3, 4, 1.0),
        "ten classes": (80, 3, 10, 1.0),
    }[name]
    rng = np.random.default_rng(len(name))
    X = scale * rng.standard_normal((n, d))
    X_test = scale * rng.standard_normal((12, d))
    if name == "separable":
        y = (X[:, 0] > 0).astype(int)
    elif name == "five per cent positive":
        y = np.zeros(n, int)
        y[np.argsort(X[:, 0])[-5:]] = 1
    else:
        y = draw_labels(rng, rng.standard_normal((n_classes, d + 1)), X)
    return Data(X, y, X_test, n_classes)


DESIGNS = [
    "fewer features than labels",
    "more features than labels",
    "five per cent positive",
    "separable",
    "four classes",
    "ten classes",
]

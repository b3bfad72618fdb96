"""A project's model for scikit-learn (.skops).

A plain pipeline from texts or rows to m and √v, and at its end a soft vote of
logistic regressions on these two: with weights h and points z of a quadrature

    p = Σ_k h_k softmax(m + z_k √v),

for two classes the trapezoidal rule, whose error is about exp(-2π² / 0.08 √v) and so below rounding
for any √v that occurs (Gauss and Hermite's would be off by 0.003), for more 512 points of a Sobol
sequence. How far off it is on the project's items is printed when the file is written. With two
classes that do not count alike a threshold comes last; scikit-learn has no such step for more, so
that ``predict`` is then the most probable class.
"""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.files import need, whole_file
from parbals.learner.numbers.metric import decide_from

from parbals_label.project.model_files import WORDS, ExportedModel, tfidf_of

__all__ = ["pipeline_of", "save_skops"]

_VOTERS = 512
_REACH, _STEP = 5.6, 0.08


def pipeline_of(exported: ExportedModel) -> Any:
    """The same as a fitted scikit-learn ``Pipeline``: texts or rows in, ``predict_proba`` out."""
    if "table" in exported.arrays:
        raise InputError(
            "A model of a table's columns has no form in scikit-learn; write arrays (.npz) instead."
        )
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, Normalizer, PolynomialFeatures

    arrays, steps = exported.arrays, []
    if exported.encoder == WORDS:
        raise InputError(
            "The features `words` have no form in scikit-learn; write arrays (.npz) instead, or "
            "make the features by `parbals embed DIR --encoder tfidf`."
        )
    if "vocabulary" in arrays:
        steps.append(("words", tfidf_of(arrays).vectorizer))
        if len(arrays["directions"]):
            steps.append(("directions", _linear(arrays["directions"].T)))
        steps.append(("length", Normalizer()))
    width = (arrays["draws"].shape[2] if "draws" in arrays else len(arrays["mean"])) - 1
    steps.append(("one", PolynomialFeatures(1).fit(np.zeros((1, width)))))  # (1, r)
    if "draws" in arrays:
        steps.append(("model", _vote(_one_first(arrays["draws"]), arrays["weights"], exported)))
        return Pipeline(steps)
    mean, roots = (_one_first(x, axis) for x, axis in ((arrays["mean"], 0), (arrays["roots"], 1)))
    n_channels, _, n_roots = roots.shape
    spread = Pipeline(
        [
            ("roots", _linear(np.concatenate(list(roots), axis=1))),
            ("square", FunctionTransformer(np.square)),
            ("sum", _linear(np.kron(np.eye(n_channels), np.ones((n_roots, 1))))),
            ("root", FunctionTransformer(np.sqrt)),
        ]
    )
    from sklearn.pipeline import FeatureUnion

    steps.append(("logits", FeatureUnion([("mean", _linear(mean)), ("deviation", spread)])))
    nodes, shares = _nodes(n_channels)
    turned = nodes[:, :, None] * np.eye(n_channels)  # node k: logits m + z_k s
    weights = np.concatenate([np.broadcast_to(np.eye(n_channels), turned.shape), turned], axis=2)
    if n_channels == 1:
        weights = np.concatenate([np.zeros_like(weights), weights], axis=1)
    steps.append(("model", _vote(weights, shares, exported)))
    return Pipeline(steps)


def _one_first(weights: np.ndarray, axis: int = -1) -> np.ndarray:
    """The weight of the constant first, as PolynomialFeatures has it."""
    return np.roll(weights, 1, axis=axis)


def _linear(matrix: np.ndarray) -> Any:
    """A fitted transformer of scikit-learn that multiplies rows by ``matrix`` (D, D')."""
    from sklearn.decomposition import TruncatedSVD

    linear = TruncatedSVD(matrix.shape[1])
    linear.components_ = np.ascontiguousarray(matrix.T)
    linear.n_features_in_ = len(matrix)
    return linear


def _nodes(n_channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (K, A) and shares (K,) whose weighted means are those over A standard normals."""
    if n_channels == 1:
        points = np.arange(-_REACH, _REACH + 0.5 * _STEP, _STEP)
        shares = np.exp(-0.5 * np.square(points))
        return points[:, None], shares / shares.sum()
    from scipy.special import ndtri
    from scipy.stats.qmc import Sobol

    half = ndtri(Sobol(n_channels, rng=0).random(_VOTERS // 2))
    return np.concatenate([half, -half]), np.full(_VOTERS, 1.0 / _VOTERS)


def _vote(weights: np.ndarray, shares: np.ndarray, exported: ExportedModel) -> Any:
    """A soft vote of logistic regressions with these weights (K, C, D), a constant's among them."""
    from sklearn.ensemble import VotingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import LabelEncoder

    order = np.argsort(np.array(exported.classes))  # scikit-learn's order of classes
    voters = []
    for given in weights[:, order]:
        voter = LogisticRegression(fit_intercept=False)
        voter.classes_ = np.arange(len(given))
        voter.coef_ = given[1:] - given[:1] if len(given) == 2 else given
        voter.intercept_ = np.zeros(len(voter.coef_))
        voter.n_features_in_ = voter.coef_.shape[1]
        voters.append(voter)
    vote = VotingClassifier(
        [(f"part{k}", voter) for k, voter in enumerate(voters)],
        voting="soft",
        weights=shares.tolist(),
    )
    vote.estimators_, vote.le_ = voters, LabelEncoder().fit(np.array(exported.classes))
    vote.classes_ = vote.le_.classes_
    if len(exported.classes) > 2 or exported.stakes is None:
        return vote
    from sklearn.model_selection import FixedThresholdClassifier

    ((label, share),) = (decide_from(exported.stakes, exported.classes) or {}).items()
    last = FixedThresholdClassifier(
        vote, threshold=share, pos_label=label, response_method="predict_proba"
    )
    last.estimator_ = vote
    return last


def save_skops(pipeline: Any, path: Path) -> None:
    """Write a scikit-learn object in skops' form, whole or not at all."""
    skops = need("skops.io", "Writing a scikit-learn pipeline", "parbals[skops]")
    content = skops.dumps(pipeline, compression=zipfile.ZIP_DEFLATED)
    with whole_file(path) as file:
        file.write(content)

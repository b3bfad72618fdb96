"""A project's model in a file, for use without it: arrays (.npz), or scikit-learn (.skops).

*Arrays.* Everything is folded onto the encoder's rows: with r̃ = (r, 1), a row and a constant 1,

    m_a = r̃ · mean[:, a],    v_a = |r̃ roots[a]|²,    f_a ~ N(m_a, v_a),

and p is E[σ(f)] of the second class (two classes, one channel a), or E[softmax(f)]. For a model of
particles ``draws`` (K, C, D' + 1) and ``weights`` (K,) stand there instead, and p is
Σ_k weights_k softmax(draws_k r̃). For ``tfidf`` and ``words`` what they have learnt of words is in
the file, so that it takes texts. Where classes do not count alike (:mod:`parbals.learner.metric`)
``stakes`` (C,) say what each is worth, and ``mark`` (C,) which one alone counts, if one does. No
pickle, and JAX is not needed.

*scikit-learn.* A plain pipeline from texts or rows to m and √v, and at its end a soft vote of
logistic regressions on these two: with weights h and points z of a quadrature

    p = Σ_k h_k softmax(m + z_k √v),

for two classes the trapezoidal rule, whose error is about exp(-2π² / 0.08 √v) and so below rounding
for any √v that occurs (Gauss and Hermite's would be off by 0.003), for more 512 points of a Sobol
sequence. How far off it is on the project's items is printed when the file is written. With two
classes that do not count alike a threshold comes last; scikit-learn has no such step for more, so
that ``predict`` is then the most probable class.
"""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from parbals.errors import InputError
from parbals.features.table import TableEncoding
from parbals.files import need, whole_file
from parbals.learner.metric import decide_from, decided
from parbals.mixture import sigmoid_means
from parbals.npy import DAMAGED_ZIP, members_of, read_member
from parbals.project.fitted import FittedFeatures
from parbals.race import class_probs
from parbals.types import Stakes

__all__ = ["ExportedModel", "load_model", "pipeline_of", "save_skops"]

_FORMAT, _VERSION = "parbals-model", 1
_VOTERS = 512
_REACH, _STEP = 5.6, 0.08
_BLOCK = 4_096
_MIX = "words"
_PATTERN = r"(?u)\b\w+\b"


@dataclass(frozen=True)
class ExportedModel:
    """What is in a file of arrays; the module's text says what the arrays mean."""

    classes: tuple[str, ...]
    encoder: str
    columns: tuple[str, ...]
    arrays: dict[str, np.ndarray]

    @classmethod
    def of(
        cls,
        model: Any,
        fitted: FittedFeatures,
        classes: tuple[str, ...],
        stakes: Stakes | None = None,
    ) -> Self:
        """The model of a learner, of features as a project has them, and its decisions' stakes."""
        onto = _onto_rows(fitted)
        arrays = dict(_words(fitted))
        if fitted.table is not None:
            arrays["table"] = np.array(json.dumps(fitted.table.as_json()))
        if stakes is not None:
            arrays["stakes"] = np.asarray(stakes.values)
            arrays |= {} if stakes.mark is None else {"mark": np.asarray(stakes.mark)}
        gaussian = getattr(model, "gaussian", None)
        if gaussian is None:
            weights = np.concatenate(
                [model.coef_samples_, model.intercept_samples_[:, :, None]], axis=2
            )
            arrays |= {"draws": weights @ onto.T, "weights": model.sample_weights}
        else:
            channels = gaussian.channels
            whitened = channels.whitening.rows(np.eye(onto.shape[1]))  # (d, d), of design rows
            basis, unit = channels.basis, np.eye(onto.shape[1])
            roots = []
            for root in channels.roots:
                inner = root @ root.T - np.eye(len(root))
                values, vectors = np.linalg.eigh(unit + basis @ inner @ basis.T)
                roots.append(onto @ whitened @ (vectors * np.sqrt(np.maximum(values, 0.0))))
            arrays |= {"mean": onto @ channels.mean, "roots": np.stack(roots)}
        return cls(classes, fitted.name, tuple(fitted.columns), arrays)

    def predict_proba(self, items: Any) -> np.ndarray:
        """(N, C): of texts where the file holds their words, else of the encoder's rows (N, D').

        Of a project with columns of a table: of a data frame, or a mapping of columns, if the
        encoder's words are in the file or there is none.
        """
        rows = self._given_rows(items)
        design = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
        blocks = [design[start : start + _BLOCK] for start in range(0, len(design), _BLOCK)]
        none = np.zeros((0, len(self.classes)))
        return np.concatenate([none, *map(self._probs, blocks)])

    def _given_rows(self, items: Any) -> np.ndarray:
        is_table = hasattr(items, "columns") or isinstance(items, Mapping)
        if "table" not in self.arrays or not is_table:
            words = "vocabulary" in self.arrays and len(items) and isinstance(items[0], str)
            return self.rows(items) if words else np.asarray(items, np.float64)
        table = TableEncoding.from_json(json.loads(str(self.arrays["table"])))
        cells = {name: list(items[name]) for name in {*table.names, *self.columns}}
        parts = [table.transform(cells).astype(np.float64)]
        if "vocabulary" in self.arrays:
            texts = zip(*(cells[name] for name in self.columns), strict=True)
            parts.insert(0, self.rows(["\n".join(str(c or "") for c in row) for row in texts]))
        return np.concatenate(parts, axis=1)

    def predict(self, items: Any) -> np.ndarray:
        """(N,) the class that is decided for each: the project's metric says how."""
        return np.array(self.classes)[decided(self.predict_proba(items), self.stakes)]

    @property
    def stakes(self) -> Stakes | None:
        """What decisions are worth; None where all classes count alike."""
        values = self.arrays.get("stakes")
        return None if values is None else Stakes(values, self.arrays.get("mark"))

    def rows(self, texts: Any) -> np.ndarray:
        """(N, D') of texts, as the project's encoder makes them: ``tfidf`` or ``words``."""
        from sklearn.preprocessing import normalize

        from parbals.features.text import TextMix

        if self.encoder == _MIX:
            return TextMix.from_arrays(self.arrays).transform(texts).astype(np.float64)
        return np.asarray(normalize(_tfidf(self.arrays).transform(texts)))

    def save(self, path: Path) -> None:
        """Write the arrays, whole or not at all."""
        head = {"format": _FORMAT, "version": _VERSION, "encoder": self.encoder}
        members: dict[str, Any] = {name: np.array(value) for name, value in head.items()}
        members |= {"classes": np.array(self.classes), "columns": np.array(self.columns, "U")}
        members |= self.arrays
        with whole_file(path) as file:
            np.savez_compressed(file, **members)

    def _probs(self, design: np.ndarray) -> np.ndarray:
        arrays = self.arrays
        if "draws" in arrays:
            logits = np.einsum("nd,kcd->nkc", design, arrays["draws"])
            shares = np.exp(logits - logits.max(axis=2, keepdims=True))
            shares /= shares.sum(axis=2, keepdims=True)
            return np.einsum("nkc,k->nc", shares, arrays["weights"])
        mean = design @ arrays["mean"]
        variance = np.stack([np.square(design @ r).sum(axis=1) for r in arrays["roots"]], axis=1)
        if mean.shape[1] > 1:
            return np.asarray(class_probs(mean.T, variance.T).T)
        (second,) = sigmoid_means(mean[:, 0], variance[:, 0], 0)
        return np.stack([1.0 - second, second], axis=1)


def load_model(path: str | Path) -> ExportedModel:
    """A model that ``parbals export --model FILE.npz`` wrote: ``predict_proba(items)`` (N, C)."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {
                name: read_member(archive, info, f"{path.name}, array {name!r}")
                for name, info in members_of(archive, path).items()
            }
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except (*DAMAGED_ZIP, OSError) as error:
        raise InputError(f"{path} is not a model of parbals ({error}).") from None
    try:
        if str(arrays.pop("format", "")) != _FORMAT:
            raise InputError(
                f"{path} is not a model of parbals; `parbals export --model` writes one."
            )
        if int(arrays.pop("version")) > _VERSION:
            raise InputError(f"{path} was written by a newer parbals; upgrade to read it.")
        head = arrays.pop("classes"), str(arrays.pop("encoder")), arrays.pop("columns")
        return ExportedModel(tuple(head[0].tolist()), head[1], tuple(head[2].tolist()), arrays)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, SystemError) as error:
        raise InputError(f"{path} is damaged ({error}); export the model again.") from None


def pipeline_of(exported: ExportedModel) -> Any:
    """The same as a fitted scikit-learn ``Pipeline``: texts or rows in, ``predict_proba`` out."""
    if "table" in exported.arrays:
        raise InputError(
            "A model of a table's columns has no form in scikit-learn; write arrays (.npz) instead."
        )
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, Normalizer, PolynomialFeatures

    arrays, steps = exported.arrays, []
    if exported.encoder == _MIX:
        raise InputError(
            "The features `words` have no form in scikit-learn; write arrays (.npz) instead, or "
            "make the features by `parbals embed DIR --encoder tfidf`."
        )
    if "vocabulary" in arrays:
        steps.append(("words", _tfidf(arrays).vectorizer))
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


def _onto_rows(fitted: FittedFeatures) -> np.ndarray:
    """G (D' + 1, D + 1): design rows of features are those of the encoder's rows times G."""
    n_rows, n_features = fitted.matrix.shape
    onto = np.zeros((n_rows + 1, n_features + 1))
    onto[:-1, :-1], onto[-1, :-1], onto[-1, -1] = fitted.matrix, fitted.offset, 1.0
    return onto


def _words(fitted: FittedFeatures) -> dict[str, np.ndarray]:
    """What the encoders ``tfidf`` and ``words`` have learnt of words; of others nothing."""
    learnt = {"tfidf": "_tfidf", _MIX: "_mix"}.get(fitted.name)
    return {} if learnt is None else getattr(fitted.encoder, learnt).as_arrays()


def _tfidf(arrays: dict[str, np.ndarray]) -> Any:
    from parbals.features.text import Tfidf

    return Tfidf.from_arrays(arrays, token_pattern=_PATTERN)

"""A project's model in a file, for use without it: arrays (.npz).

Everything is folded onto the encoder's rows: with r̃ = (r, 1), a row and a constant 1,

    m_a = r̃ · mean[:, a],    v_a = |r̃ roots[a]|²,    f_a ~ N(m_a, v_a),

and p is E[σ(f)] of the second class (two classes, one latent a), or E[softmax(f)]. For a model of
particles ``draws`` (K, C, D' + 1) and ``weights`` (K,) stand there instead, and p is
Σ_k weights_k softmax(draws_k r̃). For ``words`` what it has learnt is in the file, so that it takes
texts; for the trees of a table (:mod:`parbals_label.encoders.trees`) they are, so that it takes
columns. Where classes do not count alike
(:mod:`parbals.learner.evaluation.metric`) ``stakes`` (C,) are the class weights, and ``mark`` (C,)
which one alone counts, if one does. With ``degree`` T, where labels have taught the encoder, what
is believed is p^(1/T), normalised. No pickle.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from parbals.errors import InputError
from parbals.features.table import TableEncoding
from parbals.learner.evaluation.expectation import temperature_scaled
from parbals.learner.evaluation.metric import decide
from parbals.mixture import sigmoid_means
from parbals.race import class_probs
from parbals.types import ClassWeights
from scipy.special import logsumexp, softmax

from parbals_label.encoders.trees import TableTrees
from parbals_label.files import new_folder, whole_file
from parbals_label.project.features import ADAPTATION_FILE
from parbals_label.project.predict import FittedFeatures
from parbals_label.readers.numpy_files import arrays_in

__all__ = ["ExportedModel", "load_model", "save_folder"]

_FORMAT, _VERSION = "parbals-model", 1
_BLOCK = 4_096


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
        class_weights: ClassWeights | None = None,
        degree: float = 1.0,
    ) -> Self:
        """The model of a learner for a project's features, with the class weights of its decisions.

        ``degree``: the temperature of its predictions.
        """
        # G (D' + 1, D + 1): design rows of features are those of the encoder's rows times G.
        onto = np.pad(fitted.matrix, ((0, 1), (0, 1)))
        onto[-1] = [*fitted.offset, 1.0]
        mix = getattr(fitted.encoder, "mix", None) if fitted.name == "words" else None
        arrays: dict[str, np.ndarray] = {} if mix is None else mix.as_arrays()
        if fitted.table is not None:
            arrays["table"] = np.array(json.dumps(fitted.table.as_json()))
        if isinstance(fitted.encoder, TableTrees):
            arrays |= fitted.encoder.as_arrays()
        if degree != 1.0:
            arrays["degree"] = np.array(degree)
        if class_weights is not None:
            arrays["stakes"] = np.asarray(class_weights.values)
            arrays |= (
                {}
                if class_weights.positive is None
                else {"mark": np.asarray(class_weights.positive)}
            )
        gaussian = getattr(model, "gaussian", None)
        if gaussian is None:
            weights = np.concatenate(
                [model.coef_samples_, model.intercept_samples_[:, :, None]], axis=2
            )
            arrays |= {"draws": weights @ onto.T, "weights": model.sample_weights}
        else:
            latents = gaussian.latents
            whitened = latents.whitening.rows(np.eye(onto.shape[1]))  # (d, d), of design rows
            basis, unit = latents.basis, np.eye(onto.shape[1])
            roots = []
            for root in latents.roots:
                inner = root @ root.T - np.eye(len(root))
                values, vectors = np.linalg.eigh(unit + basis @ inner @ basis.T)
                roots.append(onto @ whitened @ (vectors * np.sqrt(np.maximum(values, 0.0))))
            arrays |= {"mean": onto @ latents.mean, "roots": np.stack(roots)}
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
        probs = np.concatenate([none, *map(self._probs, blocks)])
        return (
            temperature_scaled(probs, float(self.arrays["degree"]))
            if "degree" in self.arrays
            else probs
        )

    def _given_rows(self, items: Any) -> np.ndarray:
        is_table = hasattr(items, "columns") or isinstance(items, Mapping)
        if "table" not in self.arrays or not is_table:
            words = "vocabulary" in self.arrays and len(items) and isinstance(items[0], str)
            return self.rows(items) if words else np.asarray(items, np.float64)
        table = TableEncoding.from_json(json.loads(str(self.arrays["table"])))
        cells = {name: list(items[name]) for name in {*table.names, *self.columns}}
        parts = [table.transform(cells).astype(np.float64)]
        if "first" in self.arrays:
            return TableTrees.from_arrays(self.arrays, "The model").rows(parts[0])
        if "vocabulary" in self.arrays:
            texts = zip(*(cells[name] for name in self.columns), strict=True)
            parts.insert(0, self.rows(["\n".join(str(c or "") for c in row) for row in texts]))
        return np.concatenate(parts, axis=1)

    def predict(self, items: Any) -> np.ndarray:
        """(N,) the class that is decided for each: the project's metric says how."""
        return np.array(self.classes)[decide(self.predict_proba(items), self.class_weights)]

    @property
    def class_weights(self) -> ClassWeights | None:
        """What decisions are worth; None where all classes count alike."""
        values = self.arrays.get("stakes")
        return None if values is None else ClassWeights(values, self.arrays.get("mark"))

    def rows(self, texts: Any) -> np.ndarray:
        """(N, D') of texts, as the project's encoder ``words`` makes them."""
        from parbals.features.text import TextMix

        return TextMix.from_arrays(self.arrays).transform(texts).astype(np.float64)

    def save(self, path: Path) -> None:
        """Write the arrays, whole or not at all."""
        head = {"format": _FORMAT, "version": _VERSION, "encoder": self.encoder}
        members: dict[str, Any] = {name: np.array(value) for name, value in head.items()}
        members |= {"classes": np.array(self.classes), "columns": np.array(self.columns, "U")}
        members |= self.arrays
        with whole_file(path, mode=0o600) as file:
            np.savez_compressed(file, **members)

    def _probs(self, design: np.ndarray) -> np.ndarray:
        arrays = self.arrays
        if "draws" in arrays:
            shares = softmax(np.einsum("nd,kcd->nkc", design, arrays["draws"]), axis=2)
            return np.einsum("nkc,k->nc", shares, arrays["weights"])
        mean = design @ arrays["mean"]
        variance = np.stack([np.square(design @ r).sum(axis=1) for r in arrays["roots"]], axis=1)
        if mean.shape[1] > 1:
            return np.asarray(class_probs(mean.T, variance.T).T)
        (second,) = sigmoid_means(mean[:, 0], variance[:, 0], 0)
        return np.stack([1.0 - second, second], axis=1)


def save_folder(
    home: Path, exported: ExportedModel, calibrated: np.ndarray, rows: np.ndarray, folder: Path
) -> None:
    """An adapted encoder with a linear head, from which transformers alone can predict.

    The head is the mean of the weights, W (C, D') and b (C,), divided by the one number at which
    softmax(W r + b) is nearest to what the project's model believes, by cross entropy.

    Args:
        home: the folder of the adapted encoder.
        calibrated: (n, C) probabilities of some items.
        rows: (n, D') what the encoder makes of them.
        folder: to be made.
    """
    from safetensors.numpy import save_file
    from scipy.optimize import minimize_scalar

    arrays = exported.arrays
    mean = (
        np.einsum("kcd,k->cd", arrays["draws"], arrays["weights"])
        if "draws" in arrays
        else arrays["mean"].T
    )
    mean = np.vstack([np.zeros_like(mean), mean]) if len(mean) == 1 else mean  # (C, D' + 1)
    logits = rows @ mean[:, :-1].T + mean[:, -1]

    def apart(log_degree: float) -> float:
        scores = logits * np.exp(-log_degree)
        return float((logsumexp(scores, axis=1) - (calibrated * scores).sum(axis=1)).mean())

    degree = np.exp(minimize_scalar(apart, bounds=(-5.0, 5.0), method="bounded").x)
    with new_folder(folder) as draft:
        left_out = shutil.ignore_patterns(ADAPTATION_FILE)
        shutil.copytree(home, draft, ignore=left_out, dirs_exist_ok=True)
        tensors = {"weight": mean[:, :-1] / degree, "bias": mean[:, -1] / degree}
        save_file(
            {name: np.ascontiguousarray(x, np.float32) for name, x in tensors.items()},
            draft / "head.safetensors",
            metadata={"classes": json.dumps(exported.classes)},
        )


def load_model(path: str | Path) -> ExportedModel:
    """A model that ``parbals export --model FILE.npz`` wrote: ``predict_proba(items)`` (N, C)."""
    arrays = arrays_in(path := Path(path), "a model of parbals")
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

"""Export a project's model into a file of arrays (.npz), for use without the project.

Everything is expressed in the encoder's rows: with r̃ = (r, 1), a row and a constant 1,

    m_a = r̃ · mean[:, a],    v_a = |r̃ roots[a]|²,    f_a ~ N(m_a, v_a),

and p is E[σ(f)] of the second class (two classes, one latent a), or E[softmax(f)]. A model of
particles has ``draws`` (K, C, D' + 1) and ``weights`` (K,) instead, and p is
Σ_k weights_k softmax(draws_k r̃).

The fitted encoder ``words`` is in the file, which therefore takes texts; so are tree features
(:mod:`parbals_label.encoders.trees`), with which it takes columns. Of a sentence encoder the file
has what was fitted and ``network``, which identifies the weights: it takes texts where the encoder
is installed. Where classes are weighted
(:mod:`parbals.learner.evaluation.metric`), ``stakes`` (C,) are the class weights, and ``mark`` (C,)
marks the positive class, if there is one. ``degree`` is the temperature T of an adapted encoder:
probabilities are p^(1/T), normalised. No pickle.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
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

from parbals_label.encoders.base import Encoder
from parbals_label.encoders.embedding import encoded_rows, prepared_item
from parbals_label.encoders.sentences import SentenceEncoder
from parbals_label.encoders.table import load_encoder
from parbals_label.encoders.trees import TableTrees
from parbals_label.files import new_folder, whole_file
from parbals_label.project.features import ADAPTATION_FILE
from parbals_label.project.fitted import FittedFeatures
from parbals_label.project.model_checks import block_rows, check_model_arrays
from parbals_label.readers.numpy_files import arrays_in

__all__ = ["ExportedModel", "load_model", "save_folder"]

_FORMAT = "parbals-model"
_VERSION = 1
_MAX_NAMES_SHOWN = 10
"""Classes or columns that a description of a model lists."""
_DAMAGED = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
    SystemError,
)  # fmt: skip
"""Errors of reading arrays that do not hold what they should."""
_ENCODER_BATCH = 32
_INSTALLED_ENCODERS = ("sentences", "sentences-int8", "shapes")
"""Encoders that a model may load: they come with parbals or in a package, and fetch nothing."""
_LOG_TEMPERATURE_BOUNDS = (-5.0, 5.0)


@dataclass(frozen=True)
class ExportedModel:
    """A model as arrays; the module's docstring says what they mean.

    Attributes:
        classes: in the order of the probabilities.
        encoder: the name of the project's encoder.
        columns: the columns that it reads.
        arrays: name → array.
    """

    classes: tuple[str, ...]
    encoder: str
    columns: tuple[str, ...]
    arrays: dict[str, np.ndarray]

    def __repr__(self) -> str:
        return f"<ExportedModel of {self.input_words}; classes {_listed(self.classes)}>"

    def _repr_html_(self) -> str:
        """A small table, for the last line of a notebook cell."""
        cells = {
            "Predicts from": self.input_words,
            "Classes": _listed(self.classes),
            "Encoder": self.encoder,
        }
        rows = [f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in cells.items()]
        return f"<table><caption>Model exported by parbals</caption>{''.join(rows)}</table>"

    @property
    def input_words(self) -> str:
        """What :meth:`predict_proba` takes, in words."""
        if self._input_columns is not None:
            return f"data frames with the columns {_listed(self._input_columns)}"
        if self._reads_images:
            return "paths of images"
        if "network" in self.arrays:
            return f"texts, where the encoder {self.encoder} is installed"
        if self._reads_texts:
            return "texts"
        return f"rows of the encoder {self.encoder}"

    @property
    def _reads_texts(self) -> bool:
        """The fitted encoder of texts is in the file."""
        return "vocabulary" in self.arrays

    @property
    def _reads_images(self) -> bool:
        """The items are images, by the encoder that is part of parbals and fitted to nothing."""
        return self.encoder == "shapes" and "table" not in self.arrays

    @classmethod
    def of(
        cls,
        model: Any,
        fitted: FittedFeatures,
        classes: tuple[str, ...],
        class_weights: ClassWeights | None = None,
        degree: float = 1.0,
    ) -> Self:
        """Express a learner's model in the rows of a project's encoder.

        Args:
            model: of the learner.
            fitted: the project's features.
            classes: in the order of the model.
            class_weights: of decisions.
            degree: the temperature of predictions.
        """
        arrays = _encoder_arrays(fitted)
        if degree != 1.0:
            arrays["degree"] = np.array(degree)
        if class_weights is not None:
            arrays["stakes"] = np.asarray(class_weights.values)
            if class_weights.positive is not None:
                arrays["mark"] = np.asarray(class_weights.positive)
        arrays |= _posterior_arrays(model, fitted)
        return cls(classes, fitted.name, tuple(fitted.columns), arrays)

    def predict_proba(self, items: Any) -> np.ndarray:
        """Probabilities (N, C).

        ``items`` are what :attr:`input_words` names: texts, paths of images, or a data frame, which
        may also be a mapping of columns or a list of rows by column. The encoder's rows (N, D') can
        be predicted by every model.
        """
        readable = self._readable(items)
        is_table = isinstance(readable, dict)
        n_items = len(next(iter(readable.values()), ())) if is_table else len(readable)
        n_block_rows = block_rows(self.arrays)
        probs = np.zeros((n_items, len(self.classes)))
        for start in range(0, n_items, n_block_rows):
            block = slice(start, start + n_block_rows)
            rows = self._encoder_rows(_sliced(readable, block))
            if rows.ndim != 2 or rows.shape[1] != self._n_features:
                raise InputError(
                    f"The model needs {self._n_features} numbers for each item, and the items have "
                    f"shape {rows.shape}; give it rows of the encoder {self.encoder}."
                )
            design = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
            with np.errstate(over="ignore", invalid="ignore"):  # refused below, in a sentence
                probs[block] = self._probs(design)
        if not np.isfinite(probs).all():
            raise InputError("The model's numbers, or those of the items, are too large to use.")
        if "degree" in self.arrays:
            return temperature_scaled(probs, float(self.arrays["degree"]))
        return probs

    @property
    def _n_features(self) -> int:
        """D', the length of the encoder's rows."""
        if "draws" in self.arrays:
            return int(self.arrays["draws"].shape[2]) - 1
        return len(self.arrays["mean"]) - 1

    def _readable(self, items: Any) -> Any:
        """Column → cells of a table, a list of texts or paths, or rows (N, D')."""
        columns = self._input_columns or (self.columns if self._reads_texts else ())
        cells = _cells(items, columns) if columns else None
        if cells is not None:
            return cells if self._input_columns is not None else _joined(cells)
        if not isinstance(items, str) and (self._reads_texts or self._reads_images):
            listed = list(items)
            if listed and all(isinstance(item, str | Path) for item in listed):
                return listed
        try:
            return np.asarray(items, np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"The model takes {self.input_words}, and these items are something else."
            ) from None

    @cached_property
    def _table(self) -> TableEncoding | None:
        """The encoding of a table's columns."""
        if "table" not in self.arrays:
            return None
        return TableEncoding.from_json(json.loads(str(self.arrays["table"])))

    @cached_property
    def _trees(self) -> TableTrees | None:
        """Tree features of a table's rows."""
        return TableTrees.from_arrays(self.arrays, "The model") if "first" in self.arrays else None

    def _encoder_rows(self, items: Any) -> np.ndarray:
        """(n, D') of what the caller has: columns, texts or rows."""
        if isinstance(items, dict) and self._table is not None:
            return self._table_rows(items, self._table)
        return self.rows(items) if isinstance(items, list) else items

    def _table_rows(self, cells: dict[str, list[Any]], table: TableEncoding) -> np.ndarray:
        """(n, D') of columns: the table, with tree features or beside encoded texts."""
        table_rows = table.transform(cells).astype(np.float64)
        if self._trees is not None:
            return self._trees.rows(table_rows)
        if not self._reads_texts:
            return table_rows
        texts = _joined({name: cells[name] for name in self.columns})
        return np.concatenate([self.rows(texts), table_rows], axis=1)

    @property
    def _input_columns(self) -> list[str] | None:
        """The columns of a data frame that the model reads; None where it reads something else."""
        if self._table is None:
            return None
        # Other encoders than those in the file encode elsewhere.
        is_complete = self._reads_texts or set(self.columns) <= set(self._table.names)
        return list(dict.fromkeys([*self.columns, *self._table.names])) if is_complete else None

    def predict(self, items: Any) -> np.ndarray:
        """(N,) the predicted class, by the project's metric."""
        return np.array(self.classes)[decide(self.predict_proba(items), self.class_weights)]

    @property
    def class_weights(self) -> ClassWeights | None:
        """The class weights of decisions; None where all classes count the same."""
        values = self.arrays.get("stakes")
        return None if values is None else ClassWeights(values, self.arrays.get("mark"))

    def rows(self, items: Sequence[str | Path]) -> np.ndarray:
        """(N, D') rows of texts, or of images by their paths, by the project's encoder."""
        from parbals.features.text import TextMix

        if "network" not in self.arrays and not self._reads_images:
            return (
                TextMix.from_arrays(self.arrays)
                .transform([str(item) for item in items])
                .astype(np.float64)
            )
        encoder = self._installed_encoder
        prepared = [
            prepared_item(encoder, f"item {number}", item) for number, item in enumerate(items, 1)
        ]
        for item in prepared:
            if item.why is not None:
                raise InputError(f"The {item.name} cannot be read: {item.why}.")
        return np.asarray(encoded_rows(encoder, prepared, _ENCODER_BATCH), np.float64)

    @cached_property
    def _installed_encoder(self) -> Encoder:
        """The encoder of the items, which is part of parbals or comes in a package."""
        from parbals.features.text import TextMix

        if self.encoder not in _INSTALLED_ENCODERS:  # anybody may have written the file
            raise InputError(f"{self.encoder!r} is no encoder that parbals installs.")
        encoder = load_encoder(self.encoder)
        if isinstance(encoder, SentenceEncoder):
            if encoder.weights != str(self.arrays["network"]):
                raise InputError(
                    f"The encoder {self.encoder} that is installed has other weights than the one "
                    "that the model was made with; export the model again with it."
                )
            encoder.mix = TextMix.from_arrays(self.arrays, meaning=False)
        return encoder

    def save(self, path: Path) -> None:
        """Write the arrays, completely or not at all."""
        members: dict[str, Any] = {
            "format": np.array(_FORMAT),
            "version": np.array(_VERSION),
            "encoder": np.array(self.encoder),
            "classes": np.array(self.classes),
            "columns": np.array(self.columns, "U"),
            **self.arrays,
        }
        with whole_file(path, mode=0o600) as file:
            np.savez_compressed(file, **members)

    def _probs(self, design: np.ndarray) -> np.ndarray:
        """(n, C) of rows with a constant (n, D' + 1)."""
        arrays = self.arrays
        if "draws" in arrays:
            n_draws, n_classes, width = arrays["draws"].shape
            latents = design @ arrays["draws"].reshape(-1, width).T
            shares = softmax(latents.reshape(len(design), n_draws, n_classes), axis=2)
            return np.asarray(arrays["weights"] @ shares)
        mean = design @ arrays["mean"]
        variance = np.stack([np.square(design @ r).sum(axis=1) for r in arrays["roots"]], axis=1)
        if mean.shape[1] > 1:
            return np.asarray(class_probs(mean.T, variance.T).T)
        (second,) = sigmoid_means(mean[:, 0], variance[:, 0], 0)
        return np.stack([1.0 - second, second], axis=1)


def _listed(names: Sequence[str]) -> str:
    """The first names, separated by commas."""
    listed = ", ".join(names[:_MAX_NAMES_SHOWN])
    return f"{listed}, …" if len(names) > _MAX_NAMES_SHOWN else listed


def _sliced(items: Any, block: slice) -> Any:
    """A block of items: of every column, of texts or of rows."""
    if isinstance(items, dict):
        return {name: cells[block] for name, cells in items.items()}
    return items[block]


def _cells(items: Any, columns: Sequence[str]) -> dict[str, list[Any]] | None:
    """Column → cells of a data frame, a mapping of columns or rows by column; None of others."""
    is_list = isinstance(items, list) and bool(items)
    is_rows = is_list and all(isinstance(row, Mapping) for row in items)
    if not is_rows and not hasattr(items, "columns") and not isinstance(items, Mapping):
        return None
    for name in columns:
        if name not in (items[0] if is_rows else items):
            raise InputError(f"The model reads a column {name!r}, which is missing here.")
    if is_rows:
        return {name: [row.get(name) for row in items] for name in columns}
    return {name: list(items[name]) for name in columns}


def _joined(cells: Mapping[str, Sequence[Any]]) -> list[str]:
    """The texts of items, each the lines of its columns."""
    return ["\n".join(str(cell or "") for cell in row) for row in zip(*cells.values(), strict=True)]


def _encoder_arrays(fitted: FittedFeatures) -> dict[str, np.ndarray]:
    """What is fitted to the project's items: ``words``, a table, trees; what names a network."""
    arrays: dict[str, np.ndarray] = {}
    mix = getattr(fitted.encoder, "mix", None)
    if mix is not None:
        arrays |= mix.as_arrays()
    if isinstance(fitted.encoder, SentenceEncoder):
        arrays["network"] = np.array(fitted.encoder.weights)
    if fitted.table is not None:
        arrays["table"] = np.array(json.dumps(fitted.table.as_json()))
    if isinstance(fitted.encoder, TableTrees):
        arrays |= fitted.encoder.as_arrays()
    return arrays


def _posterior_arrays(model: Any, fitted: FittedFeatures) -> dict[str, np.ndarray]:
    """The posterior over weights of the encoder's rows: Gaussian, or particles."""
    # G (D' + 1, D + 1): design rows of features are those of the encoder's rows times G.
    projection = np.pad(fitted.matrix, ((0, 1), (0, 1)))
    projection[-1] = [*fitted.offset, 1.0]
    gaussian = getattr(model, "gaussian", None)
    if gaussian is None:
        coefficients = [model.coef_samples_, model.intercept_samples_[:, :, None]]
        draws = np.concatenate(coefficients, axis=2)
        return {"draws": draws @ projection.T, "weights": model.sample_weights}
    latents = gaussian.latents
    identity = np.eye(projection.shape[1])
    whitening = latents.whitening.rows(identity)  # (d, d), of design rows
    roots = []
    for root in latents.roots:
        inner = root @ root.T - np.eye(len(root))
        values, vectors = np.linalg.eigh(identity + latents.basis @ inner @ latents.basis.T)
        covariance_root = vectors * np.sqrt(np.maximum(values, 0.0))
        roots.append(projection @ whitening @ covariance_root)
    return {"mean": projection @ latents.mean, "roots": np.stack(roots)}


def save_folder(
    home: Path, exported: ExportedModel, calibrated: np.ndarray, rows: np.ndarray, folder: Path
) -> None:
    """Save an adapted encoder with a linear head, with which transformers alone can predict.

    The head is the mean of the weights, W (C, D') and b (C,), divided by the temperature at which
    softmax(W r + b) is nearest to the probabilities of the project's model, by cross entropy.

    Args:
        home: the folder of the adapted encoder.
        exported: the model.
        calibrated: (n, C) probabilities of some items.
        rows: (n, D') their encoder's rows.
        folder: to be created.
    """
    from safetensors.numpy import save_file
    from scipy.optimize import minimize_scalar

    weights = _mean_weights(exported.arrays)
    logits = rows @ weights[:, :-1].T + weights[:, -1]

    def cross_entropy(log_temperature: float) -> float:
        scaled = logits * np.exp(-log_temperature)
        return float((logsumexp(scaled, axis=1) - (calibrated * scaled).sum(axis=1)).mean())

    optimum = minimize_scalar(cross_entropy, bounds=_LOG_TEMPERATURE_BOUNDS, method="bounded")
    temperature = np.exp(optimum.x)
    with new_folder(folder) as draft:
        excluded = shutil.ignore_patterns(ADAPTATION_FILE)
        shutil.copytree(home, draft, ignore=excluded, dirs_exist_ok=True)
        tensors = {"weight": weights[:, :-1] / temperature, "bias": weights[:, -1] / temperature}
        save_file(
            {name: np.ascontiguousarray(x, np.float32) for name, x in tensors.items()},
            draft / "head.safetensors",
            metadata={"classes": json.dumps(exported.classes)},
        )


def _mean_weights(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """(C, D' + 1) posterior mean of the weights; with two classes the first class's are zero."""
    if "draws" in arrays:
        weights = np.einsum("kcd,k->cd", arrays["draws"], arrays["weights"])
    else:
        weights = arrays["mean"].T
    if len(weights) == 1:
        return np.vstack([np.zeros_like(weights), weights])
    return weights


def load_model(path: str | Path) -> ExportedModel:
    """Load a model that ``parbals export --model FILE.npz`` wrote.

    ``load_model(path).predict_proba(items)`` are probabilities (N, C).
    """
    path = Path(path)
    arrays = arrays_in(path, "a model of parbals")
    try:
        if str(arrays.pop("format", "")) != _FORMAT:
            raise InputError(
                f"{path} is not a model of parbals; `parbals export --model` writes one."
            )
        if int(arrays.pop("version")) > _VERSION:
            raise InputError(f"{path} was written by a newer parbals; upgrade to read it.")
        classes = tuple(arrays.pop("classes").tolist())
        encoder = str(arrays.pop("encoder"))
        columns = tuple(arrays.pop("columns").tolist())
        check_model_arrays(classes, columns, arrays)
        return ExportedModel(classes, encoder, columns, arrays)
    except InputError:
        raise
    except _DAMAGED as error:
        raise InputError(f"{path} is damaged ({error}); export the model again.") from None

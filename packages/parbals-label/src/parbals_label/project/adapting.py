"""Adapt a project's features to its labels: fine-tune the encoder, or fit tree features.

Features that were trained on a label predict it too well, and so does a leave-one-out model on
them. Adapted features are therefore evaluated by *cross-fitting*: the labels are divided into three
folds, and each fold is predicted by an encoder, and a model on its rows, that were trained on the
other two. These held-out predictions are used twice.

* To decide: the adapted encoder, trained on all labels, is used only if the held-out log loss is
  below that of the frozen features on the same folds; both at their best temperature.
* To calibrate: they are stored with the encoder, and the report's temperature is fitted to them for
  labels that trained the encoder, and to cross-validated predictions for later labels
  (:meth:`parbals.learner.state.State.cross_validated_predictions`).

The project's predictions use the same temperature. The final encoder is trained on more labels than
those of the folds, and its model is more confident; rescaling held-out predictions to it first did
not improve log losses (studies/adaptation).

Audit items and their duplicates never train an encoder, so an audit measures an adapted one like
any other.

Intermediate results stay in the cache, under a digest of everything they depend on, until the
features are stored: an interrupted run continues at the training step it was at. The project does
not change until one transaction names the new encoder and its features.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError, ProjectError
from parbals.features.table import TableEncoding
from parbals.files import TEMPORARY_SUFFIX
from parbals.learner.active import ActiveLearner
from parbals.learner.evaluation.expectation import fit_temperature, temperature_scaled
from parbals.randomness import derive_generator

from parbals_label.encoders.adapt import (
    SETTINGS,
    Schedule,
    base_folder,
    fine_tune,
    load_base,
    measure_speed,
    save_encoder,
    schedule_of,
)
from parbals_label.encoders.base import Encoder, Options
from parbals_label.encoders.cache import private_folder, read_rows, write_rows
from parbals_label.encoders.embedding import Progress
from parbals_label.encoders.torch_models import folder_digest, model_files
from parbals_label.encoders.trees import TableTrees
from parbals_label.files import DAY, cache_folder, locked, new_folder, sweep
from parbals_label.project.embedding import (
    Recipe,
    columns_of,
    contents_of,
    encode,
    fit_table,
    item_pairs,
    make_features,
    open_adapted,
    open_encoder,
)
from parbals_label.project.engine import learner_of
from parbals_label.project.features import (
    ADAPTATION_FILE,
    COLUMNS,
    adaptation_record,
    encoder_name,
    features_of,
    is_adapted,
    prior_scale_of,
    uses_table_features,
)
from parbals_label.store.records import ADAPTED
from parbals_label.store.store import Store

__all__ = ["AdaptationResult", "adapt_project", "starting_point"]

_N_FOLDS = 3
_MIN_LABELS = 20
"""A fold of fewer than seven labels says nothing."""
_N_UNLABELLED = 200
"""Items without a label that show how features vary, beside those with one."""
_CACHE_DAYS = 30
_ENCODER = "encoder"
"""Folder of the encoder that was trained on all labels, before it is the project's."""


@dataclass(frozen=True)
class AdaptationResult:
    """The comparison of adapted with frozen features on held-out labels.

    Attributes:
        used: the adapted encoder is the project's now.
        encoder: its name if it is used, else that of the frozen one.
        n_labels: labels that trained it.
        error: held-out error of the adapted features.
        log_loss: their held-out log loss.
        frozen_error: held-out error of the frozen features.
        frozen_log_loss: their held-out log loss.
    """

    used: bool
    encoder: str
    n_labels: int
    error: float
    log_loss: float
    frozen_error: float
    frozen_log_loss: float


def adapt_project(
    store: Store,
    progress: Progress = lambda stage, done, total: None,
    *,
    encoder: str | None = None,
    options: Options | None = None,
    force: bool = False,
    announce: Callable[[float], object] = lambda seconds: None,
) -> AdaptationResult:
    """Fine-tune the project's encoder, or fit tree features, and use them if they predict better.

    Args:
        store: the project.
        progress: called with the stage, and how much of it is done.
        encoder: another one to start from, hf:FOLDER; not for a table.
        options: how the encoder is run.
        force: use the adapted features even if they predict no better.
        announce: called before the training with the seconds it will take; not for a table.
    """
    kind = _TableAdaptation if uses_table_features(store.settings) else _Adaptation
    adaptation = kind.of(store, encoder, options or Options())
    busy = ProjectError(f"Another program is adapting the encoder of {store.folder}.")
    with locked(store.folder / ".adapt.lock", busy):
        _sweep(store)
        private_folder("adapted")
        private_folder(f"adapted/{adaptation.cache.name}")
        if seconds := adaptation.expected_seconds(progress):
            announce(seconds)
        frozen_probs = adaptation.cross_fit(lambda fold: adaptation.frozen_features, adapted=False)
        training = _TrainingProgress(progress, "a fold", adaptation.n_cross_fit_steps)
        adapted_probs = adaptation.cross_fit(
            partial(adaptation.fold_features, training=training), adapted=True
        )
        result = adaptation.compare(adapted_probs, frozen_probs)
        if result.used or force:
            result = adaptation.install(result, adapted_probs, progress)
        store.log(ADAPTED, **asdict(result))
        _remove_in_one_step(adaptation.cache)
    return result


def starting_point(store: Store, encoder: str | None = None) -> tuple[str, Path]:
    """The encoder of the frozen features, and the folder of the network that training starts from.

    Trees start from no network; the folder is then the project's. Raises an error where the project
    cannot be adapted: features that came with the data, no PyTorch, no weights.
    """
    has_table = uses_table_features(store.settings)
    if (encoder or not has_table) and store.settings.encoded_kind is None:
        raise InputError("No encoder reads the items of this project, so none can be adapted.")
    if store.settings.task != "classes":
        raise InputError(
            "Features can be adapted only where every item has one class; this project's task is "
            f"{store.settings.task}."
        )
    name = str(store.settings.encoder)
    if is_adapted(name):
        name = adaptation_record(store)["base"]
    return name, store.folder if has_table else base_folder(encoder or name)


class _TrainingProgress:
    """Progress over one or several trainings."""

    def __init__(self, progress: Progress, labels: str, total: int) -> None:
        self._progress = progress
        self._stage = f"training on {labels}"
        self.done = 0
        self.total = total

    def __call__(self, n_steps: int = 1) -> None:
        self.done += n_steps
        self._progress(self._stage, self.done, self.total)


@dataclass(frozen=True)
class _Adaptation:
    """Cross-fitted fine-tuning: the labels that train, their folds, and some unlabelled items.

    Attributes:
        name: the encoder of the frozen features.
        base: the folder of the network that training starts from.
        positions: (n,) of the labels that train.
        class_indices: (n,) their classes.
        folds: (n,) the fold of each.
        sampled: (m,) positions of the labels that train, then of unlabelled items.
    """

    store: Store
    name: str
    base: Path
    options: Options
    learner: ActiveLearner
    positions: np.ndarray
    class_indices: np.ndarray
    folds: np.ndarray
    sampled: np.ndarray

    @classmethod
    def of(cls, store: Store, encoder: str | None, options: Options) -> "_Adaptation":
        """Draw folds and unlabelled items; an error if there are too few labels."""
        name, base = starting_point(store, encoder)
        learner = learner_of(store, with_pending=False)
        positions, class_indices = learner.state.training_labels
        n_classes = len(np.unique(class_indices))
        if len(positions) < _MIN_LABELS or n_classes < 2:
            raise InputError(
                f"{len(positions)} labels of {n_classes} classes are too few to adapt to; "
                f"{_MIN_LABELS} labels of at least two classes are needed, without test "
                "items."
            )
        generator = derive_generator(store.settings.seed, "adapt", len(positions))
        folds = _stratified_folds(class_indices, generator)
        excluded = np.concatenate([positions, learner.audit, learner.setup.audit_duplicates])
        unlabelled = np.setdiff1d(np.arange(store.n_items), excluded)
        unlabelled = generator.permutation(unlabelled)[:_N_UNLABELLED]
        return cls(
            store=store,
            name=name,
            base=base,
            options=options,
            learner=learner,
            positions=positions,
            class_indices=class_indices,
            folds=folds,
            sampled=np.concatenate([positions, np.sort(unlabelled)]),
        )

    @cached_property
    def items(self) -> list[tuple[str, dict[str, Any]]]:
        """(m,) ids and columns of the sampled items."""
        return [(item.id, item.content) for item in self.store.items(self.sampled.tolist())]

    @cached_property
    def contents(self) -> list[Any]:
        """(n,) texts, or paths of images, of the labels that train."""
        settings = self.store.settings
        labelled = self.items[: len(self.positions)]
        contents = contents_of(
            lambda: iter(labelled),
            settings.encoded_columns,
            Path(settings.media or "."),
            settings.encoded_kind,
        )
        return [content for _, content in contents()]

    @cached_property
    def schedule(self) -> Schedule:
        """How the folds and the final encoder are trained."""
        kind = self.store.settings.encoded_kind or "text"
        return schedule_of(load_base(self.base, self.options, kind), len(self.positions))

    @cached_property
    def cache(self) -> Path:
        """The folder of intermediate results, named by a digest of everything they depend on."""
        digest = hashlib.blake2b(self.initial_state.encode(), digest_size=16)
        digest.update(json.dumps([*map(str, self.contents), self.store.identity]).encode())
        digest.update(self.class_indices.tobytes() + self.folds.tobytes() + self.sampled.tobytes())
        return cache_folder() / "adapted" / digest.hexdigest()

    @property
    def initial_state(self) -> str:
        """Identifies the model before training, and the training."""
        weights = folder_digest(self.base, model_files(self.base))
        return f"{weights} {self.options.half} {SETTINGS}"

    def n_steps(self, n_items: int) -> int:
        """Training steps on so many of the labels."""
        return self.schedule.n_steps(n_items)

    @property
    def n_cross_fit_steps(self) -> int:
        """Training steps of all folds."""
        return sum(self.n_steps(int((self.folds != fold).sum())) for fold in range(_N_FOLDS))

    def expected_seconds(self, progress: Progress) -> float:
        """How long the rest of an adaptation that is used will take, by timing a training step."""
        progress("measuring the speed", 0, None)
        kind = self.store.settings.encoded_kind or "text"
        speed = measure_speed(
            load_base(self.base, self.options, kind), self.contents, self.schedule
        )
        folds = [fold for fold in range(_N_FOLDS) if not self._features_file(fold).is_file()]
        n_training_steps = sum(self.n_steps(int((self.folds != fold).sum())) for fold in folds)
        if not (self.cache / _ENCODER).is_dir():
            n_training_steps += self.n_steps(len(self.positions))
        n_encoded = len(folds) * len(self.sampled) + self.store.n_items
        return speed.seconds(n_training_steps, n_encoded)

    @cached_property
    def frozen_features(self) -> np.ndarray:
        """(m, D) features of the sampled items as they were before any adaptation."""
        if self.store.settings.encoder == self.name:
            return np.array(features_of(self.store)[self.sampled])
        return self._encode(self.name, open_encoder(self.name, self.options))

    def _encode(self, name: str, encoder: Encoder | None) -> np.ndarray:
        """(m, D) features of the sampled items by an encoder."""
        recipe = Recipe.of(self.store.settings, name, encoder, self.options)
        encoded = encode(recipe, lambda: iter(self.items), len(self.items))
        features = np.array(encoded.features)
        encoded.discard_cache()
        return features

    def fold_features(self, fold: int, training: _TrainingProgress) -> np.ndarray:
        """(m, D) features by an encoder that was trained on all folds but this one."""
        file = self._features_file(fold)
        is_train = self.folds != fold
        features = read_rows(file, len(self.sampled))
        if features is not None:
            training(self.n_steps(int(is_train.sum())))
            return features
        encoder = self.train(is_train, fold, training)
        encoder.model = f"{self.cache.name} {fold}"  # it differs from the folder's now
        features = self._encode("adapted", encoder)
        write_rows(file, features)
        self._checkpoint(fold).unlink(missing_ok=True)
        return features

    def _features_file(self, fold: int) -> Path:
        """The file of the features by an encoder that was trained on the other folds."""
        return self.cache / f"{fold}.npy"

    def _checkpoint(self, seed: int) -> Path:
        """The file of an interrupted training."""
        return self.cache / f"{seed}.training"

    def train(self, is_train: np.ndarray, seed: int, step_done: Callable[[int], object]) -> Any:
        """An encoder that was fine-tuned on some (n,) of the labels."""
        encoder = load_base(self.base, self.options, self.store.settings.encoded_kind or "text")
        items = [self.contents[row] for row in np.flatnonzero(is_train)]
        labels = self.class_indices[is_train]
        checkpoint = self._checkpoint(seed)
        fine_tune(encoder, items, labels, seed, step_done, checkpoint, self.schedule)
        return encoder

    def cross_fit(
        self, features_without: Callable[[int], np.ndarray], *, adapted: bool
    ) -> np.ndarray:
        """(n, C) held-out predictions: each fold by a model that was fitted to the others."""
        probs = np.empty((len(self.positions), len(self.learner.classes)))
        for fold in range(_N_FOLDS):
            features = features_without(fold)
            test = np.flatnonzero(self.folds == fold)
            model = self._fit(features, np.flatnonzero(self.folds != fold), adapted)
            probs[test] = model.predict_proba(features[test])
        return probs

    def _fit(self, features: np.ndarray, train: np.ndarray, adapted: bool) -> ActiveLearner:
        """The project's model, on features (m, D) of the sampled items and some of the labels."""
        setup = self.learner.setup
        model = ActiveLearner(
            features,
            setup.classes,
            random_state=setup.seed,
            prior_scale=prior_scale_of(self.store.settings, adapted=adapted),
            checked=True,
        )
        model.tell(train, [setup.classes[index] for index in self.class_indices[train]])
        return model

    def compare(self, adapted_probs: np.ndarray, frozen_probs: np.ndarray) -> AdaptationResult:
        """Compare held-out predictions (n, C) of adapted and of frozen features."""
        error, log_loss = _error_and_log_loss(adapted_probs, self.class_indices)
        frozen_error, frozen_log_loss = _error_and_log_loss(frozen_probs, self.class_indices)
        return AdaptationResult(
            used=log_loss < frozen_log_loss,
            encoder=self.name,
            n_labels=len(self.positions),
            error=error,
            log_loss=log_loss,
            frozen_error=frozen_error,
            frozen_log_loss=frozen_log_loss,
        )

    def install(
        self, result: AdaptationResult, held_out: np.ndarray, progress: Progress
    ) -> AdaptationResult:
        """Train on all labels; encoder and features become the project's."""
        n_labels = len(self.positions)
        trained = self.cache / _ENCODER
        if not trained.is_dir():
            training = _TrainingProgress(progress, "all labels", self.n_steps(n_labels))
            training(0)
            encoder = self.train(np.ones(n_labels, bool), _N_FOLDS, training)
            save_encoder(encoder, self.base, trained)
        record = {
            **asdict(result),
            "base": self.name,
            "classes": list(self.learner.classes),
            "positions": self.positions.tolist(),
            "held_out": held_out.round(6).tolist(),
        }
        (trained / ADAPTATION_FILE).write_text(json.dumps(record), "utf-8")
        name = encoder_name(path for path in trained.rglob("*") if path.is_file())
        folder = self.store.folder / name
        if not folder.is_dir():
            with new_folder(folder) as draft:
                shutil.copytree(trained, draft, dirs_exist_ok=True)
        loaded = open_adapted(folder, self.options)
        recipe = Recipe.of(self.store.settings, name, loaded, self.options)
        make_features(self.store, recipe, progress)
        return replace(result, used=True, encoder=name)


class _TableAdaptation(_Adaptation):
    """Cross-fitted tree features, appended to the columns of a table."""

    @cached_property
    def table(self) -> TableEncoding:
        """How cells become numbers: as in the project's features, with bins or without."""
        columns = self.store.settings.encoded_columns
        table = fit_table(lambda: item_pairs(self.store), self.store.n_items, columns)
        if self.name != COLUMNS:
            return table
        record = table.as_json()
        for column in record["columns"]:
            if "edges" in column:
                column["edges"] = None
        return TableEncoding.from_json(record)

    @property
    def initial_state(self) -> str:
        return json.dumps(self.table.as_json())

    def n_steps(self, n_items: int) -> int:
        """One step grows all trees."""
        return 1

    def train(self, is_train: np.ndarray, seed: int, step_done: Callable[[int], object]) -> Any:
        rows = self.table.transform(columns_of(self.contents, self.table.names))
        trees = TableTrees.grow(self.table, rows[is_train], self.class_indices[is_train], seed)
        step_done(1)
        return trees

    def expected_seconds(self, progress: Progress) -> float:
        """Not measured: trees take about half a minute."""
        return 0.0


def _stratified_folds(class_indices: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(n,) random folds in which every class is equally frequent."""
    folds = np.empty(len(class_indices), int)
    for class_index in np.unique(class_indices):
        members = generator.permutation(np.flatnonzero(class_indices == class_index))
        first_fold = generator.integers(_N_FOLDS)
        folds[members] = (np.arange(len(members)) + first_fold) % _N_FOLDS
    return folds


def _error_and_log_loss(probs: np.ndarray, class_indices: np.ndarray) -> tuple[float, float]:
    """The error, and the log loss at the temperature that suits these predictions (n, C) best."""
    none = (probs[:0], class_indices[:0])
    temperature = fit_temperature((probs, class_indices), none)
    scaled = temperature_scaled(probs, temperature.value)
    label_probs = scaled[np.arange(len(class_indices)), class_indices]
    error = np.mean(probs.argmax(axis=1) != class_indices)
    log_loss = np.mean(-np.log(np.maximum(label_probs, 1e-300)))
    return float(error), float(log_loss)


def _remove_in_one_step(folder: Path) -> None:
    """Remove a folder so that an interruption leaves nothing under its name."""
    hidden = folder.with_name(f".{folder.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    folder.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _sweep(store: Store) -> None:
    """Remove unused encoders of interrupted runs, and intermediate results after a month."""
    for path in store.folder.glob("encoder-*"):
        if is_adapted(path.name) and path.name != store.settings.encoder:
            shutil.rmtree(path, ignore_errors=True)
    sweep(store.folder, f".encoder-*{TEMPORARY_SUFFIX}", 0.0)
    sweep(cache_folder() / "adapted", "*", _CACHE_DAYS * DAY)

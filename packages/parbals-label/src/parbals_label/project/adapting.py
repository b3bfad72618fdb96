"""Features that learn from a project's labels: its encoder of texts or images, fine-tuned, or of a
table what trees say of it.

Features that have seen a label predict it too well, and so does a model that is fitted to them with
that label left out. What is said of an adapted encoder is therefore *cross-fitted*: the labels are
cut into three parts, and each is predicted by an encoder, and a model on its rows, that have seen
the other two alone. These held-out predictions do two things.

* They decide: the adapted encoder, trained on all labels, is taken only where their log loss is
  below that of the frozen features, fitted to the same parts; both at their own best temperature.
* They stay with the encoder. The report's temperature comes from them, for labels that the encoder
  has seen, and from left-out predictions for labels that came later
  (:meth:`parbals.learner.state.State.cross_validated_predictions`).

By that temperature the project's predictions are given out, too. The final encoder has seen more
labels than those of the parts, and its model is surer; to bring held-out predictions to its scale
first was tried, and its log losses were no better (studies/adapt).

The audit's items, and copies of them, teach no encoder, so an audit measures it as it does any.

What is done is kept in the cache, under a digest of all it was made of, until the features are
stored: an interrupted run goes on with the part it was at. The project notices nothing until one
transaction names the new encoder and its features.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError, ProjectError
from parbals.features.table import TableEncoding
from parbals.files import TEMPORARY_SUFFIX, replacing
from parbals.learner.active import ActiveLearner
from parbals.learner.evaluation.expectation import fit_temperature, temperature_scaled
from parbals.randomness import derive_generator

from parbals_label.encoders.adapt import base_folder, fine_tune, load_base, n_steps, save_encoder
from parbals_label.encoders.base import Encoder, Options
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

_FOLDS = 3
_FEWEST = 20
"""Labels: a fold of fewer than seven says nothing."""
_OTHERS = 500
"""Items without a label that show how features vary, beside those with one."""


@dataclass(frozen=True)
class AdaptationResult:
    """What adapting found; errors and log losses are of held-out labels.

    ``used``: the adapted encoder is the project's now; ``encoder`` is then its name.
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
) -> AdaptationResult:
    """Teach the project's encoder, or trees; its features follow where that makes a better model.

    ``encoder``: another one to start from, hf:FOLDER; not of a table. ``force``: take it whatever
    labels say.
    """
    kind = _TablePlan if uses_table_features(store.settings) else _Plan
    plan = kind.of(store, encoder, options or Options())
    busy = ProjectError(f"Another program is adapting the encoder of {store.folder}.")
    with locked(store.folder / ".adapt.lock", busy):
        _sweep(store)
        plan.kept.mkdir(parents=True, exist_ok=True)
        total = sum(plan.n_steps(int((plan.fold != part).sum())) for part in range(_FOLDS))
        steps = _Steps(progress, "a part of the labels", total)
        frozen = plan.predicted(lambda part: plan.frozen, taught=False)
        held_out = plan.predicted(partial(plan.tuned_features, steps=steps), taught=True)
        found = plan.compared(held_out, frozen)
        if found.used or force:
            found = plan.take(found, held_out, progress)
        store.log(ADAPTED, **asdict(found))
        gone = plan.kept.with_name(f".{plan.kept.name}")
        shutil.rmtree(gone, ignore_errors=True)
        plan.kept.rename(gone)  # in one step: what a kill leaves of it is nobody's beginning
        shutil.rmtree(gone, ignore_errors=True)
    return found


def starting_point(store: Store, encoder: str | None = None) -> tuple[str, Path]:
    """The encoder of the features before any adaptation, and the folder that adapting starts from.

    Trees of a table start from none, which is the project's own folder here. Raises what keeps the
    project from adapting: features that came with the data, no PyTorch, no weights.
    """
    is_one = uses_table_features(store.settings)
    if (encoder or not is_one) and store.settings.encoded_kind is None:
        raise InputError("No encoder reads the items of this project, so none can be adapted.")
    if store.settings.task != "classes":
        raise InputError("Features adapt to one class an item; other tasks keep theirs.")
    name = str(store.settings.encoder)
    name = adaptation_record(store)["base"] if is_adapted(name) else name
    return name, store.folder if is_one else base_folder(encoder or name)


class _Steps:
    """Progress over one or several trainings."""

    def __init__(self, progress: Progress, what: str, total: int) -> None:
        self._progress, self.what, self.done, self.total = progress, what, 0, total

    def __call__(self, n: int = 1) -> None:
        self.done += n
        self._progress(f"adapting to {self.what}", self.done, self.total)


@dataclass(frozen=True)
class _Plan:
    """What is adapted to what: labels that train, their folds, and some items beside them."""

    store: Store
    name: str  # of the encoder whose features are the frozen ones
    base: Path
    options: Options
    learner: ActiveLearner
    positions: np.ndarray  # (n,) of labels that train
    numbers: np.ndarray  # (n,)
    fold: np.ndarray  # (n,)
    chosen: np.ndarray  # (m,) positions: the labels, then others

    @classmethod
    def of(cls, store: Store, encoder: str | None, options: Options) -> "_Plan":
        settings = store.settings
        name, base = starting_point(store, encoder)
        learner = learner_of(store, with_pending=False)
        positions, numbers = learner.state.training
        counts = np.bincount(numbers, minlength=len(learner.classes))
        if len(positions) < _FEWEST or (counts > 0).sum() < 2:
            raise InputError(
                f"{len(positions)} labels of {(counts > 0).sum()} classes are too few to adapt "
                f"to; it takes {_FEWEST} of at least two, without those of the audit."
            )
        generator = derive_generator(settings.seed, "adapt", len(positions))
        fold = np.empty(len(positions), int)
        for number in np.unique(numbers):  # every class in every part
            places = generator.permutation(np.flatnonzero(numbers == number))
            fold[places] = (np.arange(len(places)) + generator.integers(_FOLDS)) % _FOLDS
        out = np.concatenate([positions, learner.audit, learner.setup.audit_duplicates])
        others = np.setdiff1d(np.arange(store.n_items), out)
        others = generator.permutation(others)[:_OTHERS]
        chosen = np.concatenate([positions, np.sort(others)])
        return cls(store, name, base, options, learner, positions, numbers, fold, chosen)

    @cached_property
    def items(self) -> list[tuple[str, dict[str, Any]]]:
        return [(item.id, item.content) for item in self.store.items(self.chosen.tolist())]

    @cached_property
    def contents(self) -> list[Any]:
        """(n,) texts, or paths of images, of the labels that train."""
        how, own = self.store.settings, self.items[: len(self.positions)]
        base, kind = Path(how.media or "."), how.encoded_kind
        some = contents_of(lambda: iter(own), how.encoded_columns, base, kind)
        return [content for _, content in some()]

    @cached_property
    def kept(self) -> Path:
        """Where what is done waits for the end: a folder called by all that it depends on."""
        digest = hashlib.blake2b(self.start.encode(), digest_size=16)
        digest.update(json.dumps([*map(str, self.contents), self.store.identity]).encode())
        digest.update(self.numbers.tobytes() + self.fold.tobytes() + self.chosen.tobytes())
        return cache_folder() / "adapted" / digest.hexdigest()

    @property
    def start(self) -> str:
        """What learns from the labels, as it was before."""
        return f"{folder_digest(self.base, model_files(self.base))} {self.options.half}"

    n_steps = staticmethod(n_steps)

    @cached_property
    def frozen(self) -> np.ndarray:
        """(m, D) features of the chosen items as they were before any adaptation."""
        if self.store.settings.encoder == self.name:
            return np.array(features_of(self.store)[self.chosen])
        return self._encoded(self.name, open_encoder(self.name, self.options))

    def _encoded(self, name: str, encoder: Encoder | None) -> np.ndarray:
        recipe = Recipe.of(self.store.settings, name, encoder, self.options)
        made = encode(recipe, lambda: iter(self.items), len(self.items))
        features = np.array(made.features)
        made.forget()
        return features

    def tuned_features(self, part: int, steps: _Steps) -> np.ndarray:
        """(m, D) of an encoder that has seen all labels but those of a part."""
        file, rest = self.kept / f"{part}.npy", self.fold != part
        if file.is_file():
            steps(self.n_steps(int(rest.sum())))
            return np.load(file, allow_pickle=False)
        encoder = self.taught(rest, part, steps)
        encoder.model = f"{self.kept.name} {part}"  # no longer the folder's
        features = self._encoded("adapted", encoder)
        with replacing(file) as out:
            np.save(out, features)
        return features

    def taught(self, which: np.ndarray, seed: int, done: Callable[[], object]) -> Any:
        """An encoder that has learnt some (n,) of the labels."""
        encoder = load_base(self.base, self.options, self.store.settings.encoded_kind or "text")
        items = [content for content, here in zip(self.contents, which, strict=True) if here]
        fine_tune(encoder, items, self.numbers[which], seed, done)
        return encoder

    def predicted(
        self, features_without: Callable[[int], np.ndarray], *, taught: bool
    ) -> np.ndarray:
        """(n, C) predictions for the labels, each by a model of the other parts."""
        probs = np.empty((len(self.positions), len(self.learner.classes)))
        for part in range(_FOLDS):
            features, here = features_without(part), np.flatnonzero(self.fold == part)
            model = self._model(features, np.flatnonzero(self.fold != part), taught)
            probs[here] = model.predict_proba(features[here])
        return probs

    def _model(self, features: np.ndarray, known: np.ndarray, taught: bool) -> ActiveLearner:
        """Of features (m, D) of the chosen items and of some of the labels."""
        setup = self.learner.setup
        model = ActiveLearner(
            features,
            setup.classes,
            random_state=setup.seed,
            prior_scale=prior_scale_of(self.store.settings, taught=taught),
            checked=True,
        )
        model.tell(known, [setup.classes[number] for number in self.numbers[known]])
        return model

    def compared(self, adapted: np.ndarray, frozen: np.ndarray) -> AdaptationResult:
        values = [_judged(probs, self.numbers) for probs in (adapted, frozen)]
        means = [float(np.mean(value)) for pair in values for value in pair]
        return AdaptationResult(means[1] < means[3], self.name, len(self.positions), *means)

    def take(
        self, found: AdaptationResult, held_out: np.ndarray, progress: Progress
    ) -> AdaptationResult:
        """Train on all labels; encoder and features become the project's."""
        n_labels, made = len(self.positions), self.kept / "encoder"
        everything = np.ones(n_labels, bool)
        if not made.is_dir():
            steps = _Steps(progress, "all labels", self.n_steps(n_labels))
            steps(0)
            save_encoder(self.taught(everything, _FOLDS, steps), self.base, made)
        about = asdict(found) | {"base": self.name, "classes": list(self.learner.classes)}
        about |= {"positions": self.positions.tolist(), "held_out": held_out.round(6).tolist()}
        (made / ADAPTATION_FILE).write_text(json.dumps(about), "utf-8")
        name = encoder_name(path for path in made.rglob("*") if path.is_file())
        home = self.store.folder / name
        if not home.is_dir():
            with new_folder(home) as draft:
                shutil.copytree(made, draft, dirs_exist_ok=True)
        loaded = open_adapted(home, self.options)
        recipe = Recipe.of(self.store.settings, name, loaded, self.options)
        make_features(self.store, recipe, progress)
        return AdaptationResult(**asdict(found) | {"used": True, "encoder": name})


class _TablePlan(_Plan):
    """Trees that learn from labels, beside the columns of a table."""

    @cached_property
    def table(self) -> TableEncoding:
        """How cells become numbers: as in the features that are there, with bins or without."""
        columns = self.store.settings.encoded_columns
        table = fit_table(lambda: item_pairs(self.store), self.store.n_items, columns)
        if self.name != COLUMNS:
            return table
        record = table.as_json()
        for column in record["columns"]:
            column |= {"edges": None} if "edges" in column else {}
        return TableEncoding.from_json(record)

    @property
    def start(self) -> str:
        return json.dumps(self.table.as_json())

    n_steps = staticmethod(lambda n_items: 1)

    def taught(self, which: np.ndarray, seed: int, done: Callable[[], object]) -> Any:
        rows = self.table.transform(columns_of(self.contents, self.table.names))
        trees = TableTrees.grow(self.table, rows[which], self.numbers[which], seed)
        done()
        return trees


def _judged(probs: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) errors, and log losses at the temperature that these predictions (n, C) need."""
    none = probs[:0], numbers[:0]
    temperature = fit_temperature((probs, numbers), none, actively_selected=False)
    own = temperature_scaled(probs, temperature.value)[np.arange(len(numbers)), numbers]
    return probs.argmax(axis=1) != numbers, -np.log(np.maximum(own, 1e-300))


def _sweep(store: Store) -> None:
    """Remove what killed runs left: folders that no setting names, parts that nobody came for."""
    for path in store.folder.glob("encoder-*"):
        if is_adapted(path.name) and path.name != store.settings.encoder:
            shutil.rmtree(path, ignore_errors=True)
    sweep(store.folder, f".encoder-*{TEMPORARY_SUFFIX}", 0.0)
    sweep(cache_folder() / "adapted", "*", 30 * DAY)

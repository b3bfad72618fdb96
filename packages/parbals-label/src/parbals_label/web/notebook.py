"""The labelling page for a learner in a notebook: a project of its data, and its labels back.

A notebook's own event loop runs already, so the page runs in a process of its own, which is what
``parbals serve`` starts. Everything it confirms is in the project, whatever happens to the kernel.
A model of the user's own cannot leave the kernel: there it chooses for the page, in a thread.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from parbals.errors import InputError, ProjectError, first_line
from parbals.learner.active import ActiveLearner
from parbals.learner.numbers.metric import setting_of

from parbals_label.project.consensus import combined_labels
from parbals_label.project.features import GIVEN, store_features
from parbals_label.readers.cells import plain_value
from parbals_label.store.folder import FOLDER_MODE
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from parbals_label.web.worker import Chooser, Reporter

__all__ = ["OwnModel", "Served", "own_of", "project_of", "serve_learner"]

_ANNOTATOR = "notebook"
_FEW = 20
_BLOCK = 8_192
_GRACE = 20.0
_BATCH = 20
_PAUSE = 0.3


class Served:
    """A page that is being shown. ``link`` opens it; ``stop`` ends it and takes its labels over."""

    def __init__(
        self, learner: ActiveLearner, folder: Path, keep: bool, arguments: list[str]
    ) -> None:
        self.learner, self.folder, self._keep = learner, folder, keep
        command = [sys.executable, "-u", "-m", "parbals", "serve", str(folder), *arguments]
        own = own_of(learner)
        if own:
            command.append("--no-model")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.link = self._first_line()
        self._model = OwnModel(folder, own) if own else None

    def wait(self) -> int:
        """Until the page ends or is interrupted; how many labels are new."""
        try:
            self._process.wait()
        except KeyboardInterrupt:
            click.echo("Stopping the page; its labels are taken over.")
        return self.stop()

    def stop(self) -> int:
        """End the page; its labels are told to the learner, and changed ones corrected."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self._model is not None:
            self._model.stop()
        if not self.folder.exists():
            return 0
        with Store.open(self.folder, read_only=True) as store:
            labels = combined_labels(store.votes())
        named = {str(label): label for label in self.learner.classes}
        new = take_over(self.learner, {p: named[label] for p, label in labels.items()})
        if not self._keep:
            shutil.rmtree(self.folder.parent, ignore_errors=True)
        return new

    def _first_line(self) -> str:
        """The link, once the page can be opened; other lines are shown as they are."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            click.echo(line.rstrip())
            if "http://" in line:
                return line[line.index("http://") :].strip()
        self._process.wait()
        if not self._keep:
            shutil.rmtree(self.folder.parent, ignore_errors=True)
        raise ProjectError("The labelling page could not be started; its reason stands above.")


def serve_learner(
    learner: ActiveLearner,
    items: Any = None,
    folder: str | Path | None = None,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    browser: bool = True,
) -> Served:
    """Make a project of the learner's data and show its page; see ``ActiveLearner.serve``."""
    base = Path(tempfile.mkdtemp(prefix="parbals-")) if folder is None else Path(folder).parent
    place = base / "notebook" if folder is None else Path(folder)
    try:
        project_of(learner, items, place)
    except BaseException:
        if folder is None:
            shutil.rmtree(base, ignore_errors=True)
        raise
    more = ["--port", str(port), "--host", host, *([] if browser else ["--no-browser"])]
    return Served(learner, place, folder is not None, more)


def project_of(learner: ActiveLearner, items: Any, folder: Path) -> None:
    """A new project with the learner's features as it uses them, its settings and its labels."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectError(f"{folder} is not empty; choose a new folder for the page's project.")
    if learner.pool.is_distributed:
        raise InputError(
            "The page keeps its items on this machine, so a learner with a Dask array cannot be "
            "served; serve one of a part of it, ActiveLearner(X_part, classes), and tell its "
            "labels to this one."
        )
    classes = [str(label) for label in learner.classes]
    if len(set(classes)) < len(classes):
        raise InputError("Two classes are written alike, so nobody could tell them apart.")
    contents = list(_contents(learner, items))
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    features = np.concatenate(
        [
            learner.setup.preparation(rows).astype(np.float32)
            for _, rows in learner.pool.blocks(_BLOCK)
        ]
    )
    settings: dict[str, Any] = {
        "strategy": learner.setup.strategy,
        "seed": learner.setup.seed,
        "n_samples": learner.setup.n_samples,
        "prior_scale": learner.setup.prior_scale,
        "loss": setting_of(learner.metric),
        "audit": learner.audit.tolist(),
        "encoder": GIVEN,
        "columns": list(contents[0]),
        "find": None if learner.setup.find is None else classes[learner.setup.find],
    }
    with Store.create(folder, classes=classes, settings=settings) as store:
        names = learner.ids or range(learner.pool.n_rows)
        store.add_items((str(name), item) for name, item in zip(names, contents, strict=True))
        store.update_settings(features=store_features(folder, features))
        told = [Submission(p, classes[c]) for p, c in learner.labels_by_position.items()]
        if told:
            store.submit(told, annotator=_ANNOTATOR, source="import")


def own_of(learner: ActiveLearner) -> dict[str, Any]:
    """Arguments of the learner that its project cannot hold; features are prepared already."""
    own: dict[str, Any] = {}
    if learner.setup.model is not None:
        own["model"] = learner.setup.model
    if learner.setup.target is not None:
        blocks = learner.setup.target.blocks(_BLOCK)
        own["X_target"] = np.concatenate([learner.setup.preparation(rows) for _, rows in blocks])
    more = {"options": learner.setup.options, "n_universes": learner.setup.n_universes}
    return own | more | {"n_targets": learner.setup.n_targets} if own else own


def take_over(learner: ActiveLearner, labels: Mapping[int, Any]) -> int:
    """Tell the learner labels by position; how many it did not have, or had otherwise."""
    known, numbers = learner.labels_by_position, {c: n for n, c in enumerate(learner.classes)}
    names = learner.ids or range(learner.pool.n_rows)
    new = {p: label for p, label in labels.items() if p not in known}
    other = {
        p: label for p, label in labels.items() if known.get(p, numbers[label]) != numbers[label]
    }
    count = learner.tell([names[p] for p in new], list(new.values()))
    return count + learner.correct([names[p] for p in other], list(other.values()))


def _contents(learner: ActiveLearner, items: Any) -> Iterator[dict[str, Any]]:
    """What people see of each item, as JSON can hold it."""
    n_items = learner.pool.n_rows
    if items is None:
        names = learner.pool.names or [f"feature {n}" for n in range(learner.pool.n_columns)]
        for _, rows in learner.pool.blocks(_BLOCK):
            for row in rows[:, :_FEW].tolist():
                yield {str(k): round(v, 6) for k, v in zip(names[:_FEW], row, strict=False)}
        return
    if hasattr(items, "to_dict") and hasattr(items, "iloc"):
        items = items.to_dict("records")
    elif hasattr(items, "to_dicts"):
        items = items.to_dicts()
    listed = list(items)
    if len(listed) != n_items:
        raise InputError(f"items has {len(listed)} entries and the pool has {n_items} rows.")
    for place, item in enumerate(listed):
        columns = item if isinstance(item, Mapping) else {"text": item}
        try:
            yield {str(name): plain_value(value) for name, value in columns.items()}
        except (ValueError, RecursionError) as error:
            raise InputError(f"items[{place}] {error}; pass texts, numbers or mappings.") from None


class OwnModel:
    """Does what the page's worker does, with a learner of ``own`` arguments (``model``, ...).

    Whenever answers have come it renews the report and the predictions, and then the items that
    nobody has seen yet; half of the time is left to the rest of the process. A model that fails is
    tried again with the next answer, and meanwhile the page shows what there is.
    """

    def __init__(self, folder: Path, own: Mapping[str, Any]) -> None:
        self._folder, self._own = folder, own
        self._ending, self._last = threading.Event(), ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the computation that runs."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        with Store.open(self._folder) as store:
            chooser = Chooser(store, self._hear, self._own)
            reporter = Reporter(store, self._hear, self._own)
            seen, pause = 0, 0.0
            while not self._ending.wait(pause):
                began, answers = time.monotonic(), sum(store.revision()[:2])
                try:
                    reporter.step()
                    if answers != seen:
                        seen = answers
                        chooser.step(_BATCH, renew=True)
                except Exception as error:  # models of other people raise anything
                    self._say(f"The model failed: {type(error).__name__}: {first_line(error)}")
                pause = max(_PAUSE, time.monotonic() - began)

    def _hear(self, *, state: str = "", message: str | None = None, **_: Any) -> None:
        if state == "failed" and message:
            self._say(message)

    def _say(self, sentence: str) -> None:
        """Print a sentence in the notebook, once."""
        if sentence != self._last:
            self._last = sentence
            click.echo(sentence)

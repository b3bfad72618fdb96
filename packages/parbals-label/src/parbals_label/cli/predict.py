"""Leaving with a model: the command ``predict``, and what ``export --model`` writes."""

from pathlib import Path
from typing import Any

import click
from parbals.cli.options import ENCODING, FOLDER, JSON, NAMES, SPLIT
from parbals.cli.output import progress, say

__all__ = ["export_model", "predict"]

_FORMATS = {".jsonl": "jsonl", ".parquet": "parquet"}


@click.command()
@FOLDER
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="File to write: CSV, or by its ending .jsonl or .parquet; - is the screen.",
)
@click.option(
    "--id",
    "id_column",
    metavar="COL",
    help='Column with the new items\' names; by default `id`, if there is one. --id "" numbers '
    "them.",
)
@ENCODING
@SPLIT
@NAMES
@click.option(
    "--with-audit",
    is_flag=True,
    help="By a model that also learns from the audit's labels. What they measured is the model "
    "without them.",
)
@JSON
def predict(
    folder: Path,
    data: Path,
    out: Path,
    id_column: str | None,
    encoding: str | None,
    split: str | None,
    names: tuple[str, ...],
    with_audit: bool,
    as_json: bool,
) -> None:
    """Predict the class of new items by the project's model.

    DATA is anything that `parbals init` reads, with the columns that the project's features are
    made of. The file has a row for each item: id, predicted, and a probability for each class.

    \b
    Examples:
      parbals predict spam new.csv --out predicted.csv
      parbals predict pets more-photos/ --out predicted.jsonl
    """
    from parbals_label.project.destinations import check_destination
    from parbals_label.project.exports import write_export
    from parbals_label.project.predict import (
        open_new_items,
        predicted_columns,
        predictions,
        trained_learner,
    )
    from parbals_label.store.store import Store

    with Store.open(folder, read_only=True) as store, progress() as show:
        check_destination(store.folder, out, str(data))
        show("reading")
        learner = trained_learner(store)
        reading = {"id_column": id_column, "encoding": encoding, "split": split}
        new = open_new_items(store, data, names=list(names) or None, **reading)
        show("predicting")
        count = write_export(
            out,
            predictions(learner, new, with_audit=with_audit),
            _FORMATS.get(out.suffix.lower(), "csv"),
            predicted_columns(store.classes),
        )
    if str(out) != "-":
        n_labels = len(learner.labelled)
        record = {"file": str(out), "items": count, "labels": n_labels}
        say(as_json, record, f"{count:,} items predicted from {n_labels:,} labels, in {out}.")


def export_model(folder: Path, path: Path, *, with_audit: bool, as_json: bool) -> None:
    """Write the model of a project, as arrays or for scikit-learn by the file's ending."""
    from parbals.errors import InputError
    from parbals.files import need

    from parbals_label.project.destinations import check_destination
    from parbals_label.project.fitted import FittedFeatures
    from parbals_label.project.model_files import ExportedModel
    from parbals_label.project.pipelines import pipeline_of, save_skops
    from parbals_label.project.predict import trained_learner
    from parbals_label.store.store import Store

    form = path.suffix.lower()
    if form not in (".npz", ".skops"):
        raise InputError(f"--model is {path}; give it the ending .npz (arrays) or .skops.")
    if form == ".skops":
        need("skops.io", "Writing a scikit-learn pipeline", "parbals[skops]")
    with Store.open(folder, read_only=True) as store, progress() as show:
        check_destination(store.folder, path, store.settings.data)
        learner = trained_learner(store)
        show("fitting")
        model, fitted = learner.fitted(with_audit=with_audit), FittedFeatures.of(store)
        exported = ExportedModel.of(model, fitted, store.classes, learner.stakes(model))
        record: dict[str, Any] = {"file": str(path), "encoder": fitted.name}
        takes = f"rows of the encoder {fitted.name}"
        takes = "texts" if "vocabulary" in exported.arrays else takes
        text = f"The model of {len(learner.labelled):,} labels is in {path}; it takes {takes}."
        if form == ".npz":
            exported.save(path)
            text += " Read it with parbals.load_model, or by the formula in docs/predict.md."
        else:
            show("writing")
            pipeline = pipeline_of(exported)
            save_skops(pipeline, path)
            record["largest_difference"] = apart = _apart(exported, pipeline, fitted, store)
            text += (
                f" On items of the project its probabilities are within {apart:.1g} of those that "
                "`parbals predict` gives."
            )
            if exported.stakes is not None and len(store.classes) > 2:
                record["note"] = note = (
                    f"Its predict() is the most probable class, not what {learner.metric} decides "
                    "on: scikit-learn has no form for that with more than two classes. Arrays "
                    "(.npz) decide as `parbals predict` does."
                )
                text += f" {note}"
    say(as_json, record, text)


def _apart(exported: Any, pipeline: Any, fitted: Any, store: Any) -> float:
    """The largest difference of the two models' probabilities on some items of the project."""
    import numpy as np

    some = store.items(list(range(min(store.n_items, 1_000))))
    base = Path(store.settings.media or ".")
    items = [(item.id, item.content) for item in some]
    if fitted.name == "given":
        from parbals_label.project.features import features_of

        rows = np.asarray(features_of(store)[: len(items)], np.float64)
    else:
        rows = fitted.encoded(items, base)
    order = np.argsort(np.array(exported.classes))
    start = [name for name, _ in pipeline.steps].index("one")
    from_rows = pipeline[start:]  # what comes before makes these rows of texts
    here = exported.predict_proba(rows)[:, order]
    return float(np.abs(from_rows.predict_proba(rows) - here).max())

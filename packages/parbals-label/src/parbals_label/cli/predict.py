"""The command `parbals predict`, and the files of `export --model` and `--for-training`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.output import print_result, progress
from parbals.errors import InputError
from parbals.wording import counted

from parbals_label.cli.options import (
    FORCE,
    PATH,
    READING,
    SETTINGS,
    command,
    flag,
    open_store,
    option,
)

if TYPE_CHECKING:
    from parbals_label.store.store import Store

__all__ = ["export_model", "export_training_data", "predict"]

_FORMATS = {".jsonl": "jsonl", ".parquet": "parquet"}
_MODEL_FILE_USAGE = "Read it with parbals.load_model, or by the formula in docs/howto/predict.md."


@command
@click.argument("data", type=PATH)
@option(
    "--out FILE",
    "Write this file: CSV, or by its ending .jsonl or .parquet; - is standard output.",
    PATH,
    required=True,
)
@option(
    "--id COL",
    'Name items by this column; --id "" numbers them.  [default: id, if there is one]',
    argument="id_column",
)
@flag("--as-target", "Make these items the target set: labels are chosen for them from now on.")
@READING
@SETTINGS
@FORCE
def predict(
    folder: Path,
    data: Path,
    out: Path,
    id_column: str | None,
    as_target: bool,
    reading: dict[str, Any],
    force: bool,
    as_json: bool,
) -> None:
    """Predict the labels of new items.

    DATA is anything that `parbals init` reads, with the columns that the project's features come
    from. The file has a row for each item: id, the columns of DATA, predicted, and a probability
    for each class.

    \b
    Examples:
      parbals predict spam new.csv --out predicted.csv
      parbals predict pets more-photos/ --out predicted.jsonl
      parbals predict spam this-week.csv --out predicted.csv --as-target
    """
    from parbals_label.project.exports import check_destination, write_export
    from parbals_label.project.predict import (
        open_new_items,
        prediction_columns,
        predictions,
        trained_learner,
    )
    from parbals_label.project.predicted import PREDICTED

    left_out = 0

    def records() -> Iterator[dict[str, Any]]:
        nonlocal left_out
        for record in predictions(learner, new_items):
            left_out += record[PREDICTED] is None
            yield record

    with open_store(folder, read_only=True) as store, progress("reading") as show:
        check_destination(folder, out, force=force)
        learner = trained_learner(store)
        new_items = open_new_items(store, data, id_column=id_column, reading=reading)
        show("predicting")
        count = write_export(
            out,
            records(),
            _FORMATS.get(out.suffix.lower(), "csv"),
            prediction_columns(store.form, new_items),
        )
    if as_target:
        from parbals_label.project.target import add_target

        with open_store(folder) as store, progress("encoding the target set") as show:
            add_target(store, data, id_column=id_column, reading=reading, progress=show)
    if left_out:
        items = counted(left_out, "item that measures", "items that measure")
        click.echo(
            f"parbals: Predictions of {items} the error are left out until they are labelled.",
            err=True,
        )
    if str(out) != "-":
        n_labels = len(learner.labelled)
        record = {"file": str(out), "items": count, "labels": n_labels, "left_out": left_out}
        text = f"{count:,} items predicted from {n_labels:,} labels, in {out}."
        if as_target:
            text = f"{text} Labels are chosen for them from now on."
        print_result(as_json, record, text)


def export_model(folder: Path, path: Path, *, force: bool, as_json: bool) -> None:
    """Write the model of a project as arrays, or with its fine-tuned encoder as a folder."""
    from parbals.learner.evaluation.expectation import temperature_scaled
    from parbals.learner.reporting import prediction_temperature

    from parbals_label.project.fitted import FittedFeatures
    from parbals_label.project.model_files import ExportedModel, save_folder
    from parbals_label.project.predict import sample_predictions, trained_learner

    is_file = path.suffix.lower() == ".npz"
    with open_store(folder, read_only=True) as store, progress("fitting"):
        _check_model_path(store, folder, path, is_file=is_file, force=force)
        learner = trained_learner(store)
        model = learner.fitted()
        features = FittedFeatures.of(store)
        class_weights = learner.setup.class_weights(model)
        temperature = prediction_temperature(learner.state)
        exported = ExportedModel.of(model, features, store.classes, class_weights, temperature)
        if is_file:
            exported.save(path)
        else:
            probs, rows = sample_predictions(store, model, features)
            scaled = temperature_scaled(probs, temperature)
            save_folder(folder / features.name, exported, scaled, rows, path)
    if is_file:
        usage = f"{exported.input_words}. {_MODEL_FILE_USAGE}"
    else:
        usage = "texts. transformers alone predicts with it: docs/howto/predict.md."
    print_result(
        as_json,
        {"file": str(path), "encoder": features.name},
        f"The model of {len(learner.labelled):,} labels is in {path}; it takes {usage}",
    )


def _check_model_path(
    store: "Store", folder: Path, path: Path, *, is_file: bool, force: bool
) -> None:
    """Refuse a task that has no model file, and a path that cannot be written."""
    from parbals_label.files import check_new_folder
    from parbals_label.project.exports import check_destination
    from parbals_label.project.features import is_adapted, uses_table_features

    settings = store.settings
    if settings.task != "classes":
        raise InputError(
            "A model can be exported where every item has one class, and the task here is "
            f"{settings.task}; `parbals predict {folder} DATA --out FILE` predicts new items."
        )
    if is_file:
        check_destination(folder, path, force=force)
        return
    has_cells = settings.table_columns or uses_table_features(settings)
    if has_cells or not is_adapted(settings.encoder):
        raise InputError(
            f"--model is {path}; give it the ending .npz (a folder is for texts alone, by an "
            f"encoder that was fine-tuned: parbals adapt {folder})."
        )
    check_new_folder(path)


def export_training_data(folder: Path, path: Path, *, as_json: bool) -> None:
    """Write a project as training data for another model."""
    from parbals_label.project.training import write_training_data

    with open_store(folder, read_only=True) as store, progress("predicting"):
        counts = write_training_data(store, path)
    sizes = ", ".join(f"{count:,} items to {name}" for name, count in counts.items())
    print_result(
        as_json,
        {"folder": str(path), **counts},
        f"{sizes}, in {path}; recipes: docs/howto/predict.md.",
    )

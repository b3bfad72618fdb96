"""Convert the labels of a project to the files of Prodigy and Argilla 2.

parbals export spam --format jsonl --out labels.jsonl
python to_other_tools.py labels.jsonl --text message --prodigy prodigy.jsonl --argilla argilla.jsonl

Projects with one class for each item, ratings, and several labels for each item can be converted.
The script needs neither tool and only the standard library.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]

QUESTION = "label"
"""Name of the question in the Argilla dataset."""
NONE_APPLIES = "none of these"
"""Argilla refuses an empty list as an answer, so this label says that no other applies."""


def read_rows(path: Path, text: str) -> list[Row]:
    """Read an export, and check that it has the column ``text`` and labels that are classes."""
    with path.open(encoding="utf-8") as file:
        # str.splitlines would also split at rarer line separators inside a text.
        rows = [json.loads(line) for line in file]
    for row in rows:
        if text not in row:
            raise SystemExit(f"{path} has no column {text!r}; it has {', '.join(row)}.")
        if "predicted_sd" in row or not isinstance(row["label"], str | list | None):
            raise SystemExit(f"{path} has numbers as labels; neither tool can choose among them.")
    return rows


def classes_of(rows: Iterable[Row]) -> list[str]:
    """Return the classes: those with a probability, in order, then others that occur as labels.

    >>> classes_of([{"label": "eggs", "predicted": "ham", "p_ham": 0.9, "p_spam": 0.1}])
    ['ham', 'spam', 'eggs']
    """
    classes: dict[str, None] = {}
    labels: dict[str, None] = {}
    for row in rows:
        columns = list(row)
        # Columns before "predicted" are the items' own, whatever their names are.
        first = columns.index("predicted") if "predicted" in row else len(columns)
        names = [name.removeprefix("p_") for name in columns[first:] if name.startswith("p_")]
        classes.update(dict.fromkeys(names))
        labels.update(dict.fromkeys(as_list(row["label"])))
    return list(classes | labels)


def as_list(label: str | list[str] | None) -> list[str]:
    """Return a label as a list: one class, several, or none."""
    if label is None:
        return []
    return [label] if isinstance(label, str) else label


def prodigy_tasks(rows: Iterable[Row], text: str, classes: list[str]) -> Iterator[Row]:
    """Yield an answered multiple-choice task for every labelled item.

    Format: https://prodi.gy/docs/api-interfaces#choice. ``accept`` has the ids of the selected
    options; it is empty if no class applies. Unlabelled items are left out, since a Prodigy dataset
    holds answers. ``_input_hash`` and ``_task_hash`` are left out as well: Prodigy computes them
    from text and options when it imports a task, and hashes that were computed otherwise would keep
    it from recognizing the same text elsewhere (https://prodi.gy/docs/api-loaders#hashing).
    """
    options = [{"id": name, "text": name} for name in classes]
    for row in rows:
        if row["label"] is not None:
            yield {
                "text": row[text],
                "options": options,
                "accept": as_list(row["label"]),
                "answer": "accept",
                "meta": {"id": row["id"], "annotators": row["annotators"]},
            }


def argilla_records(rows: Iterable[Row], text: str, user_id: str | None) -> Iterator[Row]:
    """Yield a record for every item, in the form that ``argilla.Record.from_dict`` reads.

    Format: https://docs.argilla.io/latest/reference/argilla/records/records. Argilla stores a
    response under the id of one of its users. With ``user_id`` a label becomes a submitted response
    and the prediction a suggestion; without, the label becomes a suggestion of type "human", or the
    prediction does if there is no label.
    """
    for row in rows:
        label = row["label"]
        record: Row = {
            "id": row["id"],
            "fields": {"text": row[text]},
            "metadata": {},
            "suggestions": {},
            "responses": {},
        }
        if label is not None:
            record["metadata"]["annotators"] = row["annotators"].split(";")
        if label is not None and user_id is not None:
            response = {"value": argilla_value(label), "user_id": user_id, "status": "submitted"}
            record["responses"][QUESTION] = [response]
        if label is not None and user_id is None:
            suggestion = {"value": argilla_value(label), "agent": "annotators", "type": "human"}
            record["suggestions"][QUESTION] = suggestion
        elif row.get("predicted") is not None:
            record["suggestions"][QUESTION] = predicted_suggestion(row)
        yield record


def argilla_value(label: str | list[str]) -> str | list[str]:
    """Return a label as the value of a ``LabelQuestion`` or ``MultiLabelQuestion``."""
    return [NONE_APPLIES] if label == [] else label


def predicted_suggestion(row: Row) -> Row:
    """Return the prediction with its probability; a list of them if there are several labels."""
    predicted = row["predicted"]
    suggestion = {"value": argilla_value(predicted), "agent": "parbals", "type": "model"}
    if isinstance(predicted, str):
        suggestion["score"] = row[f"p_{predicted}"]
    elif predicted:
        suggestion["score"] = [row[f"p_{name}"] for name in predicted]
    return suggestion


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as JSONL."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Read the options and write the files that they name."""
    parser = argparse.ArgumentParser(description="Convert an export for Prodigy and Argilla 2.")
    parser.add_argument("export", type=Path, help="what parbals export --format jsonl wrote")
    parser.add_argument("--text", required=True, help="the column with the text")
    parser.add_argument("--prodigy", type=Path, help="write answered tasks for prodigy db-in")
    parser.add_argument("--argilla", type=Path, help="write records for argilla.Record.from_dict")
    parser.add_argument(
        "--argilla-user", metavar="ID", help="store labels as this user's responses"
    )
    options = parser.parse_args()
    rows = read_rows(options.export, options.text)
    if options.prodigy:
        write_lines(options.prodigy, prodigy_tasks(rows, options.text, classes_of(rows)))
    if options.argilla:
        write_lines(options.argilla, argilla_records(rows, options.text, options.argilla_user))


if __name__ == "__main__":
    main()

"""What there is to see of a project without a model: progress, balance, the latest report, every
item's label."""

from collections.abc import Iterator
from typing import Any

from parbals.project.consensus import combined_labels
from parbals.project.features import load_features
from parbals.store.store import Store

__all__ = ["export_columns", "export_records", "newer_answers", "overview", "overview_lines"]

_BAR = 30


def overview(store: Store) -> dict[str, Any]:
    """Plain values, for JSON and for the lines below."""
    labels = combined_labels(store.votes())
    counts = dict.fromkeys(store.classes, 0)
    for label in labels.values():
        counts[label] += 1
    latest = store.latest_report()
    return {
        "folder": str(store.folder),
        "items": store.n_items,
        "labelled": len(labels),
        "pending": len(store.pending()),
        "queued": len(store.queued()[0]),
        "passed": len(store.passes().keys() - labels.keys()),
        "batches": len(store.batches()),
        "class_balance": counts,
        "strategy": store.settings.strategy,
        "report": None
        if latest is None
        else {**latest.body, "created": latest.created, "n_labels": latest.n_labels},
    }


def overview_lines(found: dict[str, Any]) -> list[str]:
    """The same for people."""
    share = found["labelled"] / found["items"] if found["items"] else 0.0
    lines = [
        f"{found['labelled']:,} of {found['items']:,} items labelled ({share:.1%}), "
        f"{found['pending'] - found['queued']} out, {found['batches']} batches by "
        f"{found['strategy']}"
    ]
    if found["queued"] or found["passed"]:
        lines.append(
            f"{found['queued']:,} waiting on the labelling page, {found['passed']:,} passed "
            "without a label"
        )
    most = max([*found["class_balance"].values(), 1])
    width = max(len(str(label)) for label in found["class_balance"])
    for label, count in found["class_balance"].items():
        lines.append(f"  {label:<{width}}  {'█' * round(_BAR * count / most):<{_BAR}}  {count:,}")
    report = found["report"]
    if report is None:
        return [*lines, "No report yet: it is made when labels arrive (parbals tell)."]
    error, loss = report["expected_error"], report["expected_log_loss"]
    behind = found["labelled"] - report["n_labels"]
    lines += [
        f"expected error on {report['n_targets']:,} target points: {error['mean']:.1%} "
        f"(90 % interval {error['low']:.1%} to {error['high']:.1%})",
        f"expected log loss: {loss['mean']:.3g} ({loss['low']:.3g} to {loss['high']:.3g}) nats",
        report["advice"],
        *report["warnings"],
    ]
    if behind:
        lines.append(
            f"The report was made with {report['n_labels']:,} labels; the next `parbals tell` or "
            f"`parbals export {found['folder']} --renew` renews it."
        )
    return lines


def newer_answers(store: Store) -> int:
    """How many answers came after the stored predictions were made; 0 where there are no
    predictions."""
    stored = store.settings.predictions
    return 0 if stored is None else store.revision()[0] - stored.answers


def export_columns(store: Store) -> list[str]:
    """id, the items' own columns, label, annotators, and one probability for each class."""
    own = [
        f"item.{name}" if name in ("id", "label", "annotators") else name
        for name in store.settings.columns
    ]
    return ["id", *own, "label", "annotators", *(f"p_{label}" for label in _predicted(store))]


def export_records(store: Store, labelled_only: bool = False) -> Iterator[dict[str, Any]]:
    """One record for every item, in order."""
    answers = store.current_labels()
    labels = combined_labels(store.votes())
    predicted = _predicted(store)
    stored = store.settings.predictions
    predictions = None if stored is None else load_features(store.folder, stored)
    for item in store.iter_items():
        if labelled_only and item.position not in labels:
            continue
        own = {
            f"item.{k}" if k in ("id", "label", "annotators") else k: v
            for k, v in item.content.items()
        }
        record = {"id": item.id, **own, "label": labels.get(item.position)}
        record["annotators"] = ";".join(answers.get(item.position, {}))
        if predictions is not None:
            row = predictions[item.position]
            record |= {
                f"p_{label}": round(float(p), 6) for label, p in zip(predicted, row, strict=True)
            }
        yield record


def _predicted(store: Store) -> tuple[str, ...]:
    """The classes that stored predictions have."""
    stored = store.settings.predictions
    return () if stored is None else store.classes[: stored.shape[1]]

"""What random labels say of a project: a sample that certifies its predictions, shares of classes.

A sample for a certificate is a batch like any other, whose record keeps what the model decided for
its items and which items the pile left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.learner.evaluation.certify import CERTIFY, draw_sample
from parbals.learner.evaluation.ppi import ppi_mean
from parbals.randomness import derive_generator
from parbals.types import Estimate

from parbals_label.answer_form import NUMBERS
from parbals_label.project.certified import class_indices, people_labels
from parbals_label.project.features import certified_predictions, load_features
from parbals_label.project.predicted import decisions
from parbals_label.project.summary import decision_rule_of, newer_answers
from parbals_label.store.settings import MatrixFile
from parbals_label.store.store import Store

__all__ = ["ShareEstimate", "draw_certificate", "estimate_shares"]

_Z = 1.6448536269514722
"""Φ⁻¹(0.95), for 90 % intervals."""
_FEWEST = 5
"""Random labels of a group that a share is estimated from."""


@dataclass(frozen=True)
class ShareEstimate:
    """The share of a class among ``n_items`` items, from ``n`` random labels; None if too few.

    ``difference`` is that from the first group, which has most items; None for the first.
    """

    name: str
    n_items: int
    n: int
    share: Estimate | None
    difference: Estimate | None = None


def draw_certificate(
    store: Store,
    n: int,
    *,
    queued: bool,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> int:
    """Draw ``n`` of the items that have no label and are not out; the number of their batch.

    What is decided for them is by a model of all labels so far. With ``queued`` they wait on the
    page; what waits there unseen gives them its place, and may be among them.
    """
    form = store.form
    if form.task == NUMBERS:
        raise InputError(
            "A certificate counts mistakes, and numbers have none; an audit measures their error "
            "(parbals init ... --audit 50)."
        )
    if store.settings.predictions is None or newer_answers(store):
        from parbals_label.project.engine import refresh

        refresh(store, progress)
    stored = store.settings.predictions
    if stored is None:
        raise InputError("There are no predictions to certify yet; label some items first.")
    waiting = store.unseen()
    unseen = {position for some in waiting.values() for position in some}
    elsewhere = {*store.labelled(), *store.pending()} - unseen
    pile = np.setdiff1d(np.arange(store.n_items), list(elsewhere))
    drawn = draw_sample(pile, n, derive_generator(store.settings.seed, CERTIFY, store.n_batches))
    probs = load_features(store.folder, stored)
    rows = np.asarray(probs[drawn], np.float64)
    said = [
        class_indices(form, names)
        for names in decisions(form, rows, decision_rule_of(store, probs))
    ]
    record = {
        "n_labelled": store.n_labelled,
        "pile": len(pile),
        "elsewhere": sorted(elsewhere),
        "decided": dict(zip(map(str, drawn.tolist()), said, strict=True)),
        "predictions": asdict(MatrixFile(stored.file, stored.digest, stored.shape)),
    }
    chosen = [(position, None, None) for position in drawn.tolist()]
    return store.record_batch(
        CERTIFY, store.settings.seed, chosen, record, queued=queued, renew=waiting
    )


def estimate_shares(store: Store, label: str, column: str | None = None) -> list[ShareEstimate]:
    """The share of a class among all items, or among those of every value of a column.

    From the audit's labels, or from the latest sample's where these are more: prediction-powered
    (:mod:`parbals.learner.evaluation.ppi`), beside the labels that were there before the draw.
    """
    if store.settings.task == NUMBERS:
        raise InputError("Numbers have no classes, and so no shares of them.")
    if label not in store.classes:
        raise InputError(f"{label!r} is not one of the classes: {', '.join(store.classes)}.")
    number, labels = store.classes.index(label), people_labels(store)
    drawn, outside, probs = _random_labels(store, labels)
    is_drawn, is_known = np.zeros((2, store.n_items), bool)
    is_drawn[drawn] = True
    is_known[[p for p in outside if p in labels]] = True
    # Of items that were out or labelled by machines when the sample was drawn nothing is known.
    is_rest = ~is_drawn & ~np.isin(np.arange(store.n_items), outside)
    is_class = np.zeros(store.n_items)
    is_class[[p for p, c in labels.items() if number in (c if isinstance(c, list) else [c])]] = 1.0
    chance = probs[:, number].astype(np.float64)
    groups, names = _groups(store, column)
    found: list[ShareEstimate] = []
    base = 0.0
    for name in names:
        among = groups == name
        sample, rest, known = (among & which for which in (is_drawn, is_rest, is_known))
        n, n_items = int(sample.sum()), int((sample | rest | known).sum())
        share = difference = None
        if n >= _FEWEST:
            mean, spread, _ = ppi_mean(is_class[sample], chance[sample], chance[rest])
            part = (n + rest.sum()) / n_items
            mean, spread = mean * part + is_class[known].sum() / n_items, spread * part
            share = _interval(mean, spread)
            if not found:
                base = spread
            elif found[0].share is not None:
                difference = _interval(mean - found[0].share.mean, float(np.hypot(spread, base)))
        found.append(ShareEstimate(name, n_items, n, share, difference))
    return found


def _random_labels(
    store: Store, labels: Mapping[int, Any]
) -> tuple[list[int], list[int], np.ndarray]:
    """Random items that have labels, items outside of the draw, and predictions (N, C) of all."""
    settings, samples = store.settings, store.batches(CERTIFY)
    audit = [position for position in settings.audit if position in labels]
    latest = [] if not samples else [item.position for item in samples[-1].items]
    sample = [position for position in latest if position in labels]
    if len(audit) + len(sample) == 0:
        raise InputError(
            "A share is estimated from random labels, and there are none yet: label the items of "
            "an audit (parbals init ... --audit 50), or of a sample (parbals certify)."
        )
    if len(sample) > len(audit):
        frozen = certified_predictions(store)
        assert frozen is not None
        return sample, samples[-1].settings["elsewhere"], load_features(store.folder, frozen)
    stored = settings.predictions
    if stored is None:
        raise InputError(
            f"There are no predictions yet; `parbals export {store.folder} --renew` makes them."
        )
    imported = {one.name for one in store.annotators() if one.source == "import"}
    votes = store.current_labels()
    before = [p for p, by in votes.items() if imported & by.keys() and p not in settings.audit]
    return audit, before, load_features(store.folder, stored)


def _groups(store: Store, column: str | None) -> tuple[np.ndarray, list[str]]:
    """Every item's group, and the groups, that of most items first."""
    if column is None:
        return np.full(store.n_items, "all items"), ["all items"]
    contents = [item.content for item in store.iter_items()]
    if not any(column in content for content in contents):
        known = ", ".join(dict.fromkeys(name for content in contents[:100] for name in content))
        raise InputError(f"The items have no column {column!r}; they have: {known}.")
    groups = np.array([str(content.get(column, "")) for content in contents])
    names, counts = np.unique(groups, return_counts=True)
    return groups, names[np.argsort(-counts, kind="stable")].tolist()


def _interval(mean: float, deviation: float) -> Estimate:
    """The normal 90 % interval, of one mean or of the difference of two."""
    return Estimate(mean, mean - _Z * deviation, mean + _Z * deviation)

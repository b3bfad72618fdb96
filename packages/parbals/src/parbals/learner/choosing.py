"""Which items a learner asks for, the audit's share of them among them, and whom.

*Whom.* An answer is a label seen through the annotator's confusion matrix π, so it says less of the
targets than the label would. Where a label says little of a target (and of any single one it does),
what it says is ½ Σ_c δ_c² / p_c, δ_c the change of its class probabilities p_c with the target's,
and an answer says ½ Σ_a (Σ_c π_ca δ_c)² / P_a, P_a = Σ_c p_c π_ca. For two classes the ratio of
both, and for more its mean over changes δ that vary as the label itself does, is

    ρ(p) = (Σ_ca p_c π_ca² / P_a - 1) / (C - 1),

1 for somebody who is always right, 0 for one who clicks at random. A second opinion asks for a
label that is half known: its class probabilities are r instead of p, and since what a label says
goes with p_c (1 - p_c), it is worth Σ r (1 - r) / Σ p (1 - p) of the score that the item would have
as new.

So item i asked of annotator j is worth score_i · Σ r (1 - r) / Σ p (1 - p) · ρ_j(r) / cost_j, and a
batch has the best of as many new items, and as many answered ones, as it is to have questions.
Audit items go to whoever errs least among people.

What programs have answered is asked of people first, ten items at random: second opinions where
they are worth most are on odd items, by which a good program would look bad and a liar good.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from parbals.errors import InputError
from parbals.learner.annotators import confusion_matrix
from parbals.learner.evaluation.audit import n_audit_items_due, with_audit_items
from parbals.learner.evaluation.find import choose_likely_positives
from parbals.learner.models import SAMPLED_CANDIDATES
from parbals.learner.state import State
from parbals.learner.tasks.base import Classification
from parbals.randomness import derive_generator
from parbals.strategies.choose import check_terms, choose_batch, has_closed_form
from parbals.strategies.problem import Labelled
from parbals.strategies.surface import affordable_rows
from parbals.strategies.table import COLD_START, UNIFORM, strategy_named
from parbals.types import Batch, Loss
from parbals.wording import PROGRAM

__all__ = ["Question", "check_costs", "choose_among", "choose_items", "choose_questions"]
__all__ += ["efficiency"]

_CANDIDATES = 10_000
"""Free items that are looked at for one batch where samples are compared: a few seconds' work."""
_LOOKED_AT = 4  # answered items for each question: those that are known least
_CHECKS = 10  # of a program's answers
_LEAST = 1e-12


def choose_items(
    state: State, n: int, strategy: str, leave_out: Collection[int], *, with_audit: bool
) -> Batch:
    """``n`` free items, those of the audit spread over them; see ``ActiveLearner.choose``."""
    audit, is_free, left = state.setup.audit, state.is_free(), [*leave_out]
    n_audit_out, n_out = (int((~some).sum()) for some in (is_free[audit], is_free))
    free = np.setdiff1d(state.choosable(), left)
    waiting = audit[is_free[audit] & ~np.isin(audit, left)] if with_audit else audit[:0]
    if n > len(free) + len(waiting):
        raise InputError(
            f"{n} items were asked for and {len(free) + len(waiting)} are free "
            f"({len(state.labels)} labelled, {len(state.pending)} pending of {len(is_free)}); ask "
            "for fewer or forget pending ones."
        )
    drawn = waiting[
        : n_audit_items_due(n, n_audit_out, n_out - n_audit_out, len(waiting), len(free))
    ]
    if len(drawn) == n:
        return with_audit_items(None, drawn)
    if state.setup.find is not None and strategy != UNIFORM:  # it costs less than any stand-in
        batch = choose_likely_positives(state, free, n - len(drawn))
    else:
        batch = choose_among(state, free, n - len(drawn), strategy)
    return with_audit_items(batch, drawn) if len(drawn) else batch


def choose_among(
    state: State, free: np.ndarray, n: int, strategy: str, loss: Loss | None = None
) -> Batch:
    """The strategy's ``n`` of the ``free`` positions (ascending); pending items are a batch begun.

    Where there are more than the learner considers at a time, those drawn by its state. ``loss``:
    what is to be lowered; by default for the sake of the metric.
    """
    setup, used = state.setup, _usable(state, strategy)
    loss = loss or setup.task.loss(setup.metric)
    key = state.key(with_pending=True)
    entry = strategy_named(used)
    is_closed = entry.uses_predictions and has_closed_form(entry, state.fitted(warm_start=False))
    in_place = is_closed and isinstance(setup.task, Classification)
    whole = in_place and setup.pool.is_distributed
    most = max(n, len(free) if whole else _most(state, in_place))
    candidates = free
    if len(free) > most:
        drawn = derive_generator(setup.seed, "candidates", key.hex())
        candidates = np.sort(drawn.choice(free, most, replace=False))
    # Pending items enter as a partial batch, so they stand in the pool as well.
    positions = np.concatenate([candidates, state.pending_positions()])
    pool = (
        setup.pool.rows_in_place(positions, setup.preparation)
        if in_place
        else setup.pool_rows(positions)
    )
    weighed = loss == "error" and state.can_fit
    class_weights = setup.class_weights(state.fitted(warm_start=False)) if weighed else None
    terms = check_terms(
        used,
        len(pool),
        n,
        pending=np.arange(len(candidates), len(pool)),
        n_universes=max(min(setup.n_universes, 2), _shared(state, setup.n_universes)),
        random_state=int.from_bytes(key[:7], "little"),
        loss=loss,
        class_weights=class_weights,
        options=setup.options if used == setup.strategy else None,
    )
    known, numbers = state.training
    labelled = Labelled(numbers, setup.pool_rows(known)) if len(known) else Labelled()
    if entry.uses_predictions:
        batch = choose_batch(
            terms, state.fitted(warm_start=False), pool, state.target_rows(), labelled
        )
    else:
        batch = choose_batch(terms, None, pool, None, labelled)
    notes = (*setup.pool.notes, *batch.notes)
    if len(candidates) < len(free):
        notes = (*notes, f"{len(candidates):,} of {len(free):,} free items were considered.")
    return replace(batch, indices=positions[batch.indices], notes=notes)


def _usable(state: State, strategy: str) -> str:
    """The strategy, or the one that stands in for it until there are labels.

    Those that could choose under the prior start so too: its first batches are worth less
    (studies/cold_start). Not where descriptions of classes say more, nor where rows are elsewhere.
    """
    entry, setup = strategy_named(strategy), state.setup
    told = setup.described is not None or setup.pool.is_distributed
    nothing = not len(state.training[0])
    blind = not state.can_fit or (nothing and (entry.needs_labels or not told))
    return COLD_START if entry.uses_predictions and blind else strategy


def _shared(state: State, wanted: int) -> int:
    """What is looked at where items have several labels, so that fifty take seconds; what that
    costs is not measured.
    """
    return round(wanted / np.sqrt(state.setup.task.n_models))


def _most(state: State, is_closed: bool) -> int:
    """How many candidates a choice looks at."""
    setup = state.setup
    if setup.n_candidates is not None:
        return setup.n_candidates
    if not is_closed:
        return SAMPLED_CANDIDATES if setup.model is not None else _shared(state, _CANDIDATES)
    channels = state.fitted(warm_start=False).gaussian.latents
    return max(_CANDIDATES, affordable_rows(channels, setup.n_targets))


# -- whom


class Question(NamedTuple):
    """One item for one annotator."""

    item: Any
    annotator: str


def check_costs(
    task: str, annotators: Sequence[str] | None, costs: Mapping[str, float] | None
) -> dict[str, float]:
    """Annotator → what one answer costs, 1 where nothing is said."""
    if task != "classes":
        raise InputError('annotators and costs need task="classes"; leave them out.')
    names = [*(costs or {})] if annotators is None else [*annotators]
    if isinstance(annotators, str) or not names or not all(isinstance(n, str) for n in names):
        raise InputError(f"annotators is {annotators!r}; pass a list of names.")
    found = {name: float((costs or {}).get(name, 1.0)) for name in names}
    for name, cost in {**(costs or {}), **found}.items():
        if name not in found or not 0.0 < cost < np.inf:
            raise InputError(
                f"costs has {cost!r} for {name!r}; give a positive number for names of annotators."
            )
    return found


def efficiency(confusion: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """ρ (n,) of a confusion matrix (C, C) for class probabilities (n, C)."""
    said = np.maximum(probs @ confusion, _LEAST)
    return ((probs @ np.square(confusion) / said).sum(axis=1) - 1.0) / (len(confusion) - 1)


def choose_questions(
    state: State,
    n: int,
    costs: Mapping[str, float],
    out: Mapping[int, set[str]],
    leave_out: Collection[int] = (),
) -> list[tuple[int, str]]:
    """At most ``n`` positions and whom to ask of each, what is worth most for its cost first.

    ``out``: position → annotators who were asked already; ``leave_out``: not to be asked of anyone.
    """
    setup, annotator_fit = state.setup, state.annotator_fit
    annotators = () if annotator_fit is None else annotator_fit.annotators
    fitted_confusions = {annotator.name: annotator.confusion for annotator in annotators}
    initial_confusion = confusion_matrix(np.zeros((len(setup.classes),) * 2))
    confusions = {name: fitted_confusions.get(name, initial_confusion) for name in costs}
    people = [name for name in costs if not name.startswith(PROGRAM)] or [*costs]
    careful = max(people, key=lambda name: np.trace(confusions[name]))
    found: list[tuple[float, int, str]] = []

    def consider(positions: np.ndarray, scores: np.ndarray, probs: np.ndarray) -> None:
        """Take items up, each for whoever is worth most; ``probs`` are r (n, C)."""
        gains = np.stack(
            [efficiency(confusions[name], probs) / cost for name, cost in costs.items()]
        )
        for i, position in enumerate(positions.tolist()):
            done = {*state.answers.get(position, ()), *out.get(position, ())}
            ranked = [(gains[j, i], name) for j, name in enumerate(costs) if name not in done]
            gain, name = max(ranked, key=lambda one: one[0])
            # What is not scored, such as the audit's items and all before any label, comes first.
            worth = scores[i] * gain if np.isfinite(scores[i]) else np.inf
            found.append((worth, position, careful if position in setup.audit else name))

    left = [*leave_out]
    audit = np.setdiff1d(setup.audit[state.is_free()[setup.audit]], left)
    n_new = min(n, len(audit) + len(np.setdiff1d(state.choosable(), left)))
    if n_new:
        batch = choose_items(state, n_new, setup.strategy, left, with_audit=True)
        even = np.full((len(batch), len(setup.classes)), 1.0 / len(setup.classes))
        fitted = state.can_fit and len(state.training_positions)
        probs = setup.predicted(state.fitted(), batch.indices) if fitted else even
        consider(batch.indices, batch.scores, probs)
    if state.answers and setup.find is None and state.can_fit:
        if annotator_fit is not None:
            label_probs = annotator_fit.label_probs
        else:  # one annotator, whose answers the model takes at their word; another need not
            said = initial_confusion[:, state.encoded_labels(state.labelled)].T
            label_probs = said * setup.predicted(state.fitted(), state.labelled)
            label_probs /= label_probs.sum(axis=1, keepdims=True)
        doubts = dict(zip(state.labelled.tolist(), _impurity(label_probs).tolist(), strict=True))
        asked = {p: {*state.answers[p], *out.get(p, ())} for p in state.training_positions.tolist()}
        again = [p for p, by in asked.items() if None not in by and not by >= costs.keys()]
        again = sorted(np.setdiff1d(again, left), key=lambda p: -doubts[p])[: _LOOKED_AT * n]
        if again:
            batch = choose_among(state, np.sort(again), min(n, len(again)), setup.strategy)
            if np.isfinite(batch.scores).all():
                now = label_probs[np.searchsorted(state.labelled, batch.indices)]
                new = _impurity(setup.predicted(state.fitted(), batch.indices))
                share = _impurity(now) / np.maximum(new, _LEAST)
                consider(batch.indices, batch.scores * share, now)
    checks = _checks(state, costs, out, {*left})
    found = [one for one in found if one[1] not in checks]
    found += [(np.inf, position, careful) for position in checks]
    if not found:
        raise InputError("Everybody has answered every item, or was asked to; nothing is left.")
    found.sort(key=lambda one: -one[0])
    return [(position, name) for _, position, name in found[:n]]


def _checks(
    state: State, costs: Mapping[str, float], out: Mapping[int, set[str]], left: set[int]
) -> list[int]:
    """Random answers of programs that people are to check, until they have checked ten."""
    programs = {name for name in costs if name.startswith(PROGRAM)}
    if not programs or not costs.keys() - programs:
        return []
    said = {p: {*state.answers.get(p, ())} for p in state.training_positions.tolist()}
    said = {p: by | out.get(p, set()) for p, by in said.items() if by & programs}
    asked = {p for p, by in said.items() if by - programs}
    order = derive_generator(state.setup.seed, "checks").permutation(state.setup.pool.n_rows)
    new = [p for p in order.tolist() if p in said and p not in asked and p not in left]
    return new[: max(0, _CHECKS - len(asked))]


def _impurity(probs: np.ndarray) -> np.ndarray:
    """Σ p (1 - p) (n,) of class probabilities (n, C)."""
    return (probs * (1.0 - probs)).sum(axis=1)

"""Choose the next items, including audit items, and their annotators.

*Annotators.* An answer is a label seen through the annotator's confusion matrix π, and so carries
less information about a target than the label itself. If a label changes a target's class
probabilities by little (which a single label does), its information is ½ Σ_c δ_c² / p_c, where p_c
are the label's class probabilities and δ_c their change with the target's class. The information of
an answer is ½ Σ_a (Σ_c π_ca δ_c)² / P_a with P_a = Σ_c p_c π_ca. The ratio of both is, exactly for
two classes and for more on average over changes δ with the covariance of the label,

    ρ(p) = (Σ_ca p_c π_ca² / P_a - 1) / (C - 1):

1 for an annotator who is always right, 0 for one who clicks at random. A second opinion asks for a
label that is partly known: its class probabilities are r instead of p. Information is proportional
to Σ p (1 - p), so it is worth Σ r (1 - r) / Σ p (1 - p) of the item's score as a new item.

The value of asking annotator j for item i is thus

    score_i · Σ r (1 - r) / Σ p (1 - p) · ρ_j(r) / cost_j.

A batch of n questions has the n best of n new items and n second opinions. Audit items go to the
most accurate person.

*Checks.* People check ten random answers of programs before other second opinions: the answers with
the highest value are on unusual items, where a good program looks bad and a bad one good.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from parbals.errors import InputError
from parbals.learner.annotators import confusion_matrix
from parbals.learner.evaluation.audit import n_audit_items_due, with_audit_items
from parbals.learner.evaluation.find import choose_likely_positives
from parbals.learner.models import USER_MODEL_N_CANDIDATES
from parbals.learner.state import State
from parbals.learner.tasks.base import Classification
from parbals.randomness import derive_generator
from parbals.strategies.choose import check_settings, choose_batch, has_closed_form
from parbals.strategies.problem import Labelled
from parbals.strategies.scoring import affordable_rows
from parbals.strategies.table import COLD_START, UNIFORM, strategy_named
from parbals.types import Batch, Loss
from parbals.wording import PROGRAM_PREFIX

__all__ = [
    "Question",
    "answer_efficiency",
    "check_costs",
    "choose_among",
    "choose_items",
    "choose_questions",
]

_N_CANDIDATES = 10_000
"""Free items that are considered for one batch where samples are compared: a few seconds' work."""
_MIN_UNIVERSES = 2
_SECOND_OPINIONS_PER_QUESTION = 4
"""Answered items, the least certain ones, that are considered for each question."""
_N_PROGRAM_CHECKS = 10
"""Random answers of programs that people check."""
_EPS = 1e-12


# -- items


def choose_items(
    state: State, n: int, strategy: str, leave_out: Collection[int], *, with_audit: bool
) -> Batch:
    """Choose ``n`` free items, audit items spread over them; see ``ActiveLearner.choose``."""
    audit = state.setup.audit
    excluded = list(leave_out)
    is_free = state.is_free()
    free = np.setdiff1d(state.choosable(), excluded)
    free_audit = audit[:0]
    if with_audit:
        free_audit = audit[is_free[audit] & ~np.isin(audit, excluded)]
    n_available = len(free) + len(free_audit)
    if n > n_available:
        raise InputError(
            f"{n} items were asked for and {n_available} are free "
            f"({len(state.labels)} labelled, {len(state.pending)} pending of {len(is_free)}); ask "
            "for fewer or forget pending ones."
        )
    n_used = int(np.count_nonzero(~is_free))
    n_audit_used = int(np.count_nonzero(~is_free[audit]))
    n_audit = n_audit_items_due(n, n_audit_used, n_used - n_audit_used, len(free_audit), len(free))
    audit_items = free_audit[:n_audit]
    if n_audit == n:
        return with_audit_items(None, audit_items)
    # A search for a rare class is faster than any other strategy, and needs no fallback.
    if state.setup.find is not None and strategy != UNIFORM:
        batch = choose_likely_positives(state, free, n - n_audit)
    else:
        batch = choose_among(state, free, n - n_audit, strategy)
    return with_audit_items(batch, audit_items) if n_audit else batch


def choose_among(
    state: State, free: np.ndarray, n: int, strategy: str, loss: Loss | None = None
) -> Batch:
    """Choose ``n`` of the ``free`` positions (ascending) by a strategy.

    Pending items count as a batch already begun. If more items are free than the learner considers
    at a time, a random sample is considered. ``loss`` is the one to minimise, by default that of
    the metric.
    """
    setup = state.setup
    used_strategy = _strategy_or_cold_start(state, strategy)
    entry = strategy_named(used_strategy)
    loss = loss or setup.task.loss(setup.metric)
    key = state.key(with_pending=True)
    model = state.fitted(warm_start=False) if entry.uses_predictions else None
    is_closed_form = entry.uses_predictions and has_closed_form(entry, model)
    reads_rows_in_place = is_closed_form and isinstance(setup.task, Classification)
    candidates = free
    scores_whole_pool = reads_rows_in_place and setup.pool.is_distributed
    if not scores_whole_pool:
        n_candidates = max(n, _max_candidates(state, is_closed_form=reads_rows_in_place))
        candidates = _sample_candidates(setup.seed, key, free, n_candidates)
    # Pending items enter the strategy as a partial batch, and so are rows of its pool, too.
    positions = np.concatenate([candidates, state.pending_positions()])
    if reads_rows_in_place:
        pool: Any = setup.pool.rows_in_place(positions, setup.preparation)
    else:
        pool = setup.pool_rows(positions)
    uses_class_weights = loss == "error" and state.can_fit
    class_weights = None
    if uses_class_weights:
        class_weights = setup.class_weights(state.fitted(warm_start=False))
    n_universes = _multilabel_budget(state, setup.n_universes)
    settings = check_settings(
        used_strategy,
        len(pool),
        n,
        pending=np.arange(len(candidates), len(pool)),
        n_universes=max(min(setup.n_universes, _MIN_UNIVERSES), n_universes),
        random_state=int.from_bytes(key[:7], "little"),
        loss=loss,
        class_weights=class_weights,
        options=setup.options if used_strategy == setup.strategy else None,
    )
    targets = state.target_rows() if entry.uses_predictions else None
    batch = choose_batch(settings, model, pool, targets, _labelled_rows(state))
    notes = [*setup.pool.notes, *batch.notes]
    if len(candidates) < len(free):
        notes.append(f"{len(candidates):,} of {len(free):,} free items were considered.")
    return replace(batch, indices=positions[batch.indices], notes=tuple(notes))


def _strategy_or_cold_start(state: State, strategy: str) -> str:
    """Return the strategy, or the one that replaces it until there are labels.

    Strategies that could choose under the prior are replaced, too, because their first batches are
    worse (studies/cold_start); not where classes are described, nor where the pool is distributed.
    """
    entry = strategy_named(strategy)
    setup = state.setup
    has_no_labels = len(state.training_labels.positions) == 0
    has_prior_information = setup.class_descriptions is not None or setup.pool.is_distributed
    can_start_with_prior = has_prior_information and not entry.needs_labels
    use_cold_start = not state.can_fit or (has_no_labels and not can_start_with_prior)
    return COLD_START if entry.uses_predictions and use_cold_start else strategy


def _multilabel_budget(state: State, budget: int) -> int:
    """Divide a budget by √n_models to bound run time (effect on quality unmeasured)."""
    return round(budget / np.sqrt(state.setup.task.n_models))


def _max_candidates(state: State, *, is_closed_form: bool) -> int:
    """Return how many free items are considered at most."""
    setup = state.setup
    if setup.n_candidates is not None:
        return setup.n_candidates
    if is_closed_form:
        latents = state.fitted(warm_start=False).gaussian.latents
        return max(_N_CANDIDATES, affordable_rows(latents, setup.n_targets))
    if setup.model is not None:
        return USER_MODEL_N_CANDIDATES
    return _multilabel_budget(state, _N_CANDIDATES)


def _sample_candidates(seed: int, key: bytes, free: np.ndarray, size: int) -> np.ndarray:
    """Sample at most ``size`` of the free positions, ascending."""
    if len(free) <= size:
        return free
    generator = derive_generator(seed, "candidates", key.hex())
    return np.sort(generator.choice(free, size, replace=False))


def _labelled_rows(state: State) -> Labelled:
    """Return the training labels with their rows, for strategies that compare items with them."""
    positions, labels = state.training_labels
    if not len(positions):
        return Labelled()
    return Labelled(labels, state.setup.pool_rows(positions))


# -- items and annotators


class Question(NamedTuple):
    """An item for an annotator."""

    item: Any
    annotator: str


def check_costs(
    task: str, annotators: Sequence[str] | None, costs: Mapping[str, float] | None
) -> dict[str, float]:
    """Return annotator → cost of one answer, by default 1.

    >>> check_costs("classes", ["ada", "llm"], {"llm": 0.1})
    {'ada': 1.0, 'llm': 0.1}
    """
    if task != "classes":
        raise InputError('annotators and costs need task="classes"; leave them out.')
    costs = costs or {}
    names = list(costs) if annotators is None else list(annotators)
    if isinstance(annotators, str) or not names or not all(isinstance(n, str) for n in names):
        raise InputError(f"annotators is {annotators!r}; pass a list of names.")
    cost_of = {name: float(costs.get(name, 1.0)) for name in names}
    for name, cost in {**costs, **cost_of}.items():
        if name not in cost_of or not 0.0 < cost < np.inf:
            raise InputError(
                f"costs has {cost!r} for {name!r}; give a positive number for names of annotators."
            )
    return cost_of


def answer_efficiency(confusion: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Compute ρ (n,), the information of an answer relative to that of a label.

    An annotator who is always right, and one who clicks at random:

    >>> probs = np.array([[0.3, 0.7]])
    >>> answer_efficiency(np.eye(2), probs).round(6)
    array([1.])
    >>> answer_efficiency(np.full((2, 2), 0.5), probs).round(6)
    array([0.])

    Args:
        confusion: (C, C) confusion matrix of the annotator.
        probs: (n, C) class probabilities of the items.
    """
    answer_probs = np.maximum(probs @ confusion, _EPS)
    information = (probs @ np.square(confusion) / answer_probs).sum(axis=1)
    return (information - 1.0) / (len(confusion) - 1)


class _Candidate(NamedTuple):
    """A question that may be asked; ``value`` is its expected information per cost."""

    value: float
    position: int
    annotator: str


@dataclass(frozen=True)
class _Annotators:
    """The annotators who may be asked.

    Attributes:
        costs: annotator → cost of one answer.
        confusions: annotator → confusion matrix (C, C).
        asked_annotators: position → annotators who were asked for this item.
    """

    costs: Mapping[str, float]
    confusions: Mapping[str, np.ndarray]
    asked_annotators: Mapping[int, set[str]]

    @property
    def programs(self) -> set[str]:
        """The annotators that are programs."""
        return {name for name in self.costs if name.startswith(PROGRAM_PREFIX)}

    @property
    def most_accurate_person(self) -> str:
        """The person with the highest mean recall; a program if there are no people."""
        programs = self.programs
        people = [name for name in self.costs if name not in programs]
        return max(people or self.costs, key=lambda name: np.trace(self.confusions[name]))

    def answered_or_asked(self, state: State, position: int) -> set[str | None]:
        """Return who has answered an item or was asked to; None stands for a gold label."""
        return {*state.answers.get(position, ()), *self.asked_annotators.get(position, ())}

    def candidates(
        self, state: State, positions: np.ndarray, scores: np.ndarray, probs: np.ndarray
    ) -> list[_Candidate]:
        """Pair each item with the annotator of the highest information per cost.

        Args:
            positions: (n,) of the items.
            scores: (n,) information of a label; NaN where it is unknown.
            probs: (n, C) class probabilities, given the answers there are.
        """
        gains = {
            name: answer_efficiency(self.confusions[name], probs) / cost
            for name, cost in self.costs.items()
        }
        candidates = []
        for row, position in enumerate(positions.tolist()):
            unavailable = self.answered_or_asked(state, position)
            available = [name for name in self.costs if name not in unavailable]
            annotator = max(available, key=lambda name: gains[name][row])
            # Items without a score come first: audit items, and all items before any label.
            value = np.inf
            if np.isfinite(scores[row]):
                value = scores[row] * gains[annotator][row]
            if position in state.setup.audit:
                annotator = self.most_accurate_person
            candidates.append(_Candidate(value, position, annotator))
        return candidates


def choose_questions(
    state: State,
    n: int,
    costs: Mapping[str, float],
    asked_annotators: Mapping[int, set[str]],
    leave_out: Collection[int] = (),
) -> list[tuple[int, str]]:
    """Choose at most ``n`` pairs (position, annotator), the highest value per cost first.

    Args:
        state: of the learner.
        n: number of questions.
        costs: annotator → cost of one answer.
        asked_annotators: position → annotators who were asked already.
        leave_out: positions that nobody is to be asked for.
    """
    excluded = sorted(leave_out)
    annotators = _Annotators(costs, _confusions(state, costs), asked_annotators)
    candidates = [
        *_new_items(state, n, annotators, excluded),
        *_second_opinions(state, n, annotators, excluded),
    ]
    checks = _program_checks(state, annotators, excluded)
    ranked = _ranked(candidates, checks)
    if not ranked:
        raise InputError("Everybody has answered every item, or was asked to; nothing is left.")
    return [(candidate.position, candidate.annotator) for candidate in ranked[:n]]


def _confusions(state: State, names: Collection[str]) -> dict[str, np.ndarray]:
    """Return annotator → confusion matrix, the prior mean for annotators without answers."""
    fit = state.annotator_fit
    annotators = () if fit is None else fit.annotators
    fitted = {annotator.name: annotator.confusion for annotator in annotators}
    prior_mean = _prior_confusion(state)
    return {name: fitted.get(name, prior_mean) for name in names}


def _prior_confusion(state: State) -> np.ndarray:
    """Return the confusion matrix (C, C) of an annotator who has not answered yet."""
    n_classes = len(state.setup.classes)
    return confusion_matrix(np.zeros((n_classes, n_classes)))


def _new_items(
    state: State, n: int, annotators: _Annotators, excluded: Sequence[int]
) -> list[_Candidate]:
    """Choose at most ``n`` items without a label, audit items among them."""
    setup = state.setup
    free_audit = np.setdiff1d(setup.audit[state.is_free()[setup.audit]], excluded)
    free = np.setdiff1d(state.choosable(), excluded)
    n_new = min(n, len(free_audit) + len(free))
    if not n_new:
        return []
    batch = choose_items(state, n_new, setup.strategy, excluded, with_audit=True)
    if state.can_fit and len(state.training_positions):
        probs = setup.predictions(state.fitted(), batch.indices)
    else:
        n_classes = len(setup.classes)
        probs = np.full((len(batch), n_classes), 1.0 / n_classes)
    return annotators.candidates(state, batch.indices, batch.scores, probs)


def _second_opinions(
    state: State, n: int, annotators: _Annotators, excluded: Sequence[int]
) -> list[_Candidate]:
    """Choose at most ``n`` answered items for which another answer has the highest value."""
    setup = state.setup
    if not state.answers or setup.find is not None or not state.can_fit:
        return []
    label_probs = _label_probs(state)
    uncertainty = dict(zip(state.labelled.tolist(), _impurity(label_probs).tolist(), strict=True))
    open_positions = []
    for position in state.training_positions.tolist():
        names = annotators.answered_or_asked(state, position)
        has_gold_label = None in names
        if not has_gold_label and not names >= annotators.costs.keys():
            open_positions.append(position)
    open_positions = sorted(
        set(open_positions).difference(excluded),
        key=lambda position: (-uncertainty[position], position),
    )
    considered = open_positions[: _SECOND_OPINIONS_PER_QUESTION * n]
    if not considered:
        return []
    batch = choose_among(state, np.sort(considered), min(n, len(considered)), setup.strategy)
    if not np.isfinite(batch.scores).all():
        return []
    probs_with_answers = label_probs[np.searchsorted(state.labelled, batch.indices)]
    probs_without = setup.predictions(state.fitted(), batch.indices)
    share_left = _impurity(probs_with_answers) / np.maximum(_impurity(probs_without), _EPS)
    return annotators.candidates(
        state, batch.indices, batch.scores * share_left, probs_with_answers
    )


def _label_probs(state: State) -> np.ndarray:
    """Return class probabilities (n, C) of the labelled items, given all answers to them."""
    fit = state.annotator_fit
    if fit is not None:
        return fit.label_probs
    # The model takes the answers of a single annotator for gold; a second opinion must not.
    labels = state.encoded_labels(state.labelled)
    likelihoods = _prior_confusion(state)[:, labels].T
    probs = likelihoods * state.setup.predictions(state.fitted(), state.labelled)
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def _program_checks(
    state: State, annotators: _Annotators, excluded: Sequence[int]
) -> list[_Candidate]:
    """Choose random answers of programs for people to check, until ten were checked."""
    programs = annotators.programs
    has_people = bool(annotators.costs.keys() - programs)
    if not programs or not has_people:
        return []
    unchecked = set()
    n_checked = 0
    for position in state.training_positions.tolist():
        if not programs & {*state.answers.get(position, ())}:
            continue
        if annotators.answered_or_asked(state, position) - programs:
            n_checked += 1
        else:
            unchecked.add(position)
    n_missing = max(0, _N_PROGRAM_CHECKS - n_checked)
    unchecked -= set(excluded)
    generator = derive_generator(state.setup.seed, "checks")
    order = generator.permutation(state.setup.pool.n_rows)
    positions = [position for position in order.tolist() if position in unchecked]
    person = annotators.most_accurate_person
    return [_Candidate(np.inf, position, person) for position in positions[:n_missing]]


def _ranked(candidates: Sequence[_Candidate], checks: Sequence[_Candidate]) -> list[_Candidate]:
    """Sort by value, the highest first; a check replaces other questions about its item."""
    checked = {check.position for check in checks}
    unchecked = [candidate for candidate in candidates if candidate.position not in checked]
    return sorted([*unchecked, *checks], key=lambda candidate: -candidate.value)


def _impurity(probs: np.ndarray) -> np.ndarray:
    """Compute the Gini impurity Σ p (1 - p) (n,) of class probabilities (n, C)."""
    return (probs * (1.0 - probs)).sum(axis=1)

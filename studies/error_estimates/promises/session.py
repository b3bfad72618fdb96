"""One session of labelling, and every statement that it makes with a probability.

An audit of 50 items is part of the session; with 100 and with 250 further labels the statements are
compared with the truth. That of errors is measured on items that the learner has never seen, that
of samples and shares is known of the whole pool.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["ANNOTATORS", "N_AUDIT", "N_DRAWS", "N_SAMPLE", "Source", "play"]

N_AUDIT = 50
CHECKPOINTS = (100, 250)
"""Labels that train the model."""
N_POOL = 1_500
N_TEST = 4_000
N_ADAPTED_TEST = 2_000
"""Fewer, because every fine-tuned encoder has to read them."""
BATCH = 30
N_SAMPLE = 60
"""Size of a certificate's sample."""
N_DRAWS = 20
"""Samples that are drawn, one after the other, at each checkpoint."""
N_TREES = 50
ANNOTATORS = {"ada": 0.05, "bob": 0.15, "eve": 0.30}
"""Simulated annotators and the probability of each to be wrong, evenly over the other classes."""
SECOND_OPINION = 0.3
"""Share of items that two annotators label."""


@dataclass
class Source:
    """The items of a session: rows (N, D) and class numbers (N,), the pool first.

    Attributes:
        texts: makes rows by fine-tuned encoders; None where rows stay as they are.
    """

    rows: np.ndarray
    labels: np.ndarray
    n_pool: int
    n_classes: int
    texts: Any = None
    held_out: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def test_labels(self) -> np.ndarray:
        return self.labels[self.n_pool :]

    @property
    def pool_labels(self) -> np.ndarray:
        return self.labels[: self.n_pool]

    @property
    def test_rows(self) -> np.ndarray:
        return self.rows[self.n_pool :]

    def adapt(self, training: np.ndarray, seed: int) -> None:
        """Fine-tune the encoder on the labels of ``training``: all rows become its rows."""
        training = np.sort(training)
        probs = self.texts.held_out(training, self.n_pool, self.n_classes, seed)
        self.rows = self.texts.adapted(training, np.arange(len(self.labels)), len(CHECKPOINTS) + 1)
        self.held_out = training, probs


def source(data: str, model: str, seed: int, folder: Path) -> Source:
    """Divide a set into pool and test set."""
    from error_estimates.promises.sets import TEXTS
    from error_estimates.promises.texts import AdaptedTexts, load_rows, load_texts
    from lib.rows import load

    rows, labels = load_rows(folder, data) if data in TEXTS else load(data)[:2]
    n_test = N_ADAPTED_TEST if model == "adapted" else N_TEST
    order = np.random.default_rng(seed).permutation(len(rows))[: N_POOL + n_test]
    n_pool = min(N_POOL, 2 * len(rows) // 3)
    texts = None
    if model == "adapted":
        all_texts = load_texts(folder, data)[0]
        texts = AdaptedTexts(folder, [all_texts[i] for i in order], labels[order])
    return Source(rows[order], labels[order], n_pool, int(labels.max()) + 1, texts)


def play(data: str, model: str, strategy: str, seed: int, folder: Path) -> dict[str, Any]:
    """Label a pool in batches, and note statements and truths."""
    items = source(data, model, seed, folder)
    session = _Session(items, model, strategy, seed)
    record: dict[str, Any] = {"classes": items.n_classes, "looks": [], "at": {}}
    for n_labels in CHECKPOINTS:
        while session.n_training < n_labels:
            session.step()
            record["looks"] += session.new_looks()
        if model == "adapted":
            session.adapt()
            record["looks"] += session.new_looks()
        record["at"][str(n_labels)] = session.statements()
    # A fine-tuned encoder has seen the true labels, which simulated annotators do not give it.
    record["annotators"] = [] if model == "adapted" else session.annotators()
    return record


class _Session:
    """A learner with an audit, and the same labels without one."""

    def __init__(self, items: Source, model: str, strategy: str, seed: int) -> None:
        self.items = items
        self.model = model
        self.strategy = strategy
        self.seed = seed
        self.generator = np.random.default_rng([seed, 1])
        self.learner = self._learner(items.rows[: items.n_pool], audit=N_AUDIT)
        self.audit = self.learner.audit
        self.last_look: tuple[int, int] | None = None

    def _learner(self, rows: np.ndarray, **settings: Any) -> Any:
        import parbals

        if self.model == "forest":
            from sklearn.ensemble import RandomForestClassifier

            settings["model"] = RandomForestClassifier(N_TREES, random_state=self.seed)
        if self.items.held_out is not None:
            settings["prior_scale"] = "even"
        return parbals.ActiveLearner(
            rows,
            range(self.items.n_classes),
            strategy=self.strategy,
            random_state=self.seed,
            **settings,
        )

    @property
    def training(self) -> np.ndarray:
        """Positions of labels that train the model, in the order in which they came."""
        order = np.array(list(self.learner.state.labels), int)
        return order[~np.isin(order, self.audit)]

    @property
    def n_training(self) -> int:
        return len(self.training)

    def step(self) -> None:
        """Ask for a batch and label it."""
        batch = self.learner.ask(BATCH)
        self.learner.tell(batch, self.items.labels[batch])

    def adapt(self) -> None:
        """Continue with rows of an encoder that is fine-tuned on the labels so far."""
        order = np.array(list(self.learner.state.labels), int)
        self.items.adapt(self.training, self.seed)
        self.learner = self._learner(
            self.items.rows[: self.items.n_pool],
            audit=self.audit.tolist(),
            held_out=self.items.held_out,
        )
        self.learner.tell(order, self.items.labels[order])

    # -- statements

    def new_looks(self) -> list[list[float]]:
        """Return the audit's new look, if any: labels, estimate, limits, and the true error."""
        from parbals.learner.evaluation.audit import current_look, measure_error

        state = self.learner.state
        look, training, audited = current_look(state)
        n_known = 0 if self.items.held_out is None else len(self.items.held_out[0])
        if look is None or self.last_look == (look.n_labels, n_known):
            return []
        self.last_look = look.n_labels, n_known
        measured = measure_error(state).error
        decisions, _ = self._predict(self.learner, state.model_of(training))
        real = np.mean(decisions != self.items.test_labels)
        values = [measured.mean, measured.low, measured.high, real]
        return [[look.n_labels, len(audited), *np.round(values, 4).tolist()]]

    def _predict(self, learner: Any, model: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return decisions (M,) for the test set, and its log loss."""
        from parbals.learner.setup import mean_proba

        probs = mean_proba(model, learner.setup.preparation(self.items.test_rows))
        labels = self.items.test_labels
        own = probs[np.arange(len(labels)), labels]
        return probs.argmax(axis=1), -np.log(np.maximum(own, 1e-12)).mean()

    def statements(self) -> dict[str, Any]:
        """Compare what is said at a checkpoint with the truth."""
        unaudited = np.setdiff1d(np.arange(self.items.n_pool), self.audit)
        held_out = None
        if self.items.held_out is not None:
            training, probs = self.items.held_out
            held_out = np.searchsorted(unaudited, training), probs
        settings = {} if held_out is None else {"held_out": held_out}
        alone = self._learner(self.items.rows[unaudited], **settings)
        alone.tell(np.searchsorted(unaudited, self.training), self.items.labels[self.training])
        report = alone.report(BATCH)
        decisions, log_loss = self._predict(alone, alone.fitted())
        real = float(np.mean(decisions != self.items.test_labels))
        expected = report.expected_error
        with_audit = self.learner.report(1).expected_error
        batch = alone.ask(BATCH)
        alone.tell(batch, self.items.labels[unaudited[batch]])
        _, next_log_loss = self._predict(alone, alone.fitted())
        gain = report.next_gain
        return {
            "real": round(real, 4),
            "expected": np.round([expected.mean, expected.low, expected.high], 4).tolist(),
            "with_audit": np.round([with_audit.mean, with_audit.low, with_audit.high], 4).tolist(),
            "stop": [
                bool(report.stop),
                None if gain is None else round(gain / report.expected_log_loss.mean, 4),
                round(1.0 - next_log_loss / log_loss, 4),
            ],
            **self._samples(),
        }

    def _samples(self) -> dict[str, Any]:
        """Draw certificates, and estimate the share of each class from them and from the audit."""
        from parbals.learner.evaluation.certify import hypergeometric_limits

        learner = self.learner
        state = learner.state
        labels = self.items.pool_labels
        probs = learner.setup.predictions(learner.fitted(), np.arange(self.items.n_pool))
        wrong = probs.argmax(axis=1) != labels
        free = np.flatnonzero(state.is_free())
        shares = np.zeros((self.items.n_classes, 2))
        too_low = 0
        too_high = 0
        for _ in range(N_DRAWS):
            drawn = self.generator.choice(free, N_SAMPLE, replace=False)
            low, high = hypergeometric_limits(int(wrong[drawn].sum()), N_SAMPLE, len(free))
            too_high += int(wrong[free].mean() < low)
            too_low += int(wrong[free].mean() > high)
            shares += self._share_failures(drawn, np.setdiff1d(free, drawn), probs)
        by_audit = self._share_failures(
            state.audited, np.setdiff1d(np.arange(self.items.n_pool), state.audited), probs
        )
        return {
            "certificate": [too_low, too_high],
            "shares": shares.sum(axis=0).astype(int).tolist(),
            "audit_shares": by_audit.sum(axis=0).astype(int).tolist(),
        }

    def _share_failures(
        self, sampled: np.ndarray, unlabelled: np.ndarray, probs: np.ndarray
    ) -> np.ndarray:
        """Return (C, 2): upper and lower limit of each class's share fail, as `estimate` has them.

        Args:
            sampled: positions with a random label.
            unlabelled: positions that could have been drawn.
            probs: (N, C) predictions for the pool.
        """
        from parbals.learner.evaluation.limits import stratified_limits

        population = np.concatenate([sampled, unlabelled])
        failures = np.zeros((self.items.n_classes, 2))
        for number in range(self.items.n_classes):
            is_class = (self.items.pool_labels == number).astype(float)
            _, low, high = stratified_limits(
                is_class[sampled], probs[sampled, number], probs[unlabelled, number], 0.05
            )
            share = is_class[population].mean()
            failures[number] = share > high, share < low
        return failures

    def annotators(self) -> list[list[float]]:
        """Return of each simulated annotator: rate, share of wrong answers, estimate, limits."""
        learner = self._learner(self.items.rows[: self.items.n_pool])
        names = list(ANNOTATORS)
        mistakes: dict[str, list[bool]] = {name: [] for name in names}
        for position in self.training.tolist():
            n_answers = 1 + int(self.generator.random() < SECOND_OPINION)
            for name in self.generator.choice(names, n_answers, replace=False):
                label = int(self.items.labels[position])
                is_wrong = self.generator.random() < ANNOTATORS[name]
                if is_wrong:
                    label += int(self.generator.integers(1, self.items.n_classes))
                mistakes[name].append(is_wrong)
                learner.tell([position], [label % self.items.n_classes], annotator=str(name))
        estimates = []
        for annotator in learner.annotators():
            name = annotator.name
            error = annotator.error
            share = np.mean(mistakes[name])
            values = [ANNOTATORS[name], share, error.mean, error.low, error.high]
            estimates.append(np.round(values, 4).tolist())
        return estimates

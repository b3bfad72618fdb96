"""scikit-activeml: every strategy as one of its query strategies, and our model as a classifier.

    from parbals.integrations.skactiveml import BayesianClassifier, ParbalsQuery

    query = ParbalsQuery("parbals-epig", random_state=0)
    indices = query.query(X, y, clf=BayesianClassifier(classes=[0, 1]), batch_size=10)

``y`` holds a label for every row of ``X``, missing ones included, as everywhere in that library.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np

from parbals.errors import InputError
from parbals.files import need
from parbals.learner.models import as_sample_model
from parbals.posterior.estimator import LogisticModel
from parbals.randomness import derive_generator
from parbals.scores.losses import Loss
from parbals.select import select_batch_from_model
from parbals.strategies.table import COLD_START, DEFAULT, Strategy, strategy_named
from parbals.types import Batch

__all__ = ["BayesianClassifier", "ParbalsQuery"]

_base, _utils, _sklearn, _validation = need(
    "skactiveml.base skactiveml.utils sklearn.base sklearn.utils.validation",
    "The query strategies for scikit-activeml",
    "parbals[skactiveml]",
)
_Classifier: Any = _base.SkactivemlClassifier
_Query: Any = _base.SingleAnnotatorPoolQueryStrategy
_MOST_TARGETS = 1_000


class BayesianClassifier(_Classifier):
    """:class:`parbals.BayesianLogisticRegression` as a classifier of scikit-activeml.

    Its posterior samples are a committee for the strategies over there too:
    ``BatchBALD(sample_predictions_method_name="sample_proba")``, and the same of
    ``QueryByCommittee`` and ``GreedyBALD``.

    Args:
        n_samples, prior_scale, inference: as in :class:`parbals.BayesianLogisticRegression`. Rows
            without a label take part in choosing the prior.
        classes, missing_label, cost_matrix, random_state: as in ``SkactivemlClassifier``.
    """

    def __init__(
        self,
        n_samples: int = 400,
        prior_scale: float | str = "auto",
        inference: str = "auto",
        classes: Any = None,
        missing_label: Any = _utils.MISSING_LABEL,
        cost_matrix: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(classes, missing_label, cost_matrix, random_state)
        self.n_samples = n_samples
        self.prior_scale = prior_scale
        self.inference = inference

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from the labelled ones of the rows X (n, D), y (n,)."""
        X, numbers, weights = self._validate_data(X, y, sample_weight)
        if weights is not None and np.ptp(weights) > 0:
            raise ValueError(
                "BayesianClassifier gives every label the same weight; leave sample_weight out."
            )
        if not X.size:
            raise ValueError("BayesianClassifier needs the features of some rows; X is empty.")
        known = numbers >= 0
        self.model_ = None
        if len(self.classes_) > 1:
            model = LogisticModel(
                self.n_samples,
                self.prior_scale,
                self.inference,
                np.arange(len(self.classes_)),
                int(self.random_state_.randint(2**31 - 1)),
            )
            self.model_ = (
                model.fit(X[known], numbers[known], X_pool=X)
                if known.any()
                else model.fit_prior(X.shape[1], X_pool=X)
            )
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, C) probabilities in the order of ``classes_``."""
        X = self._rows(X)
        return np.ones((len(X), 1)) if self.model_ is None else self.model_.predict_proba(X)

    def sample_proba(self, X: Any, n_samples: int | None = None) -> np.ndarray:
        """(K, N, C): of every posterior sample, or of the first ``n_samples``."""
        X = self._rows(X)
        if self.model_ is None:
            return np.ones((n_samples or self.n_samples, len(X), 1))
        samples = self.model_.sample_proba(X)[:, :n_samples].astype(np.float64)
        return (samples / samples.sum(axis=2, keepdims=True)).swapaxes(0, 1)

    def _rows(self, X: Any) -> np.ndarray:
        _validation.check_is_fitted(self, "classes_")
        X = _validation.check_array(X)
        _utils.check_n_features(self, X, reset=False)
        return X


class ParbalsQuery(_Query):
    """A strategy of parbals, or of a package that adds one, for a pool of scikit-activeml.

    Until labels of two classes are known a classifier of theirs says nothing yet, and ``coreset``
    chooses. Of :class:`BayesianClassifier` every strategy but GALAXY and GLISTER, which compare
    labels, chooses from the first item on.

    Args:
        strategy: a name from ``parbals strategies``.
        n_universes, loss, beta, n_configurations, options: as in :func:`parbals.select_batch`.
        n_members: how many copies of a classifier that is not an ensemble make a committee.
        missing_label, random_state: as in ``SingleAnnotatorPoolQueryStrategy``.
    """

    def __init__(
        self,
        strategy: str = DEFAULT,
        n_universes: int = 10,
        loss: str = "log",
        beta: float = 1.0,
        n_configurations: int = 4096,
        options: Mapping[str, Any] | None = None,
        n_members: int = 32,
        missing_label: Any = _utils.MISSING_LABEL,
        random_state: Any = None,
    ) -> None:
        super().__init__(missing_label=missing_label, random_state=random_state)
        self.strategy = strategy
        self.n_universes = n_universes
        self.loss = loss
        self.beta = beta
        self.n_configurations = n_configurations
        self.options = options
        self.n_members = n_members

    def query(
        self,
        X: Any,
        y: Any,
        clf: Any = None,
        fit_clf: bool = True,
        sample_weight: Any = None,
        X_target: Any = None,
        candidates: Any = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> Any:
        """Choose ``batch_size`` of the candidates.

        Args:
            X: (n, D) features of all rows, labelled and unlabelled.
            y: (n,) labels, ``missing_label`` where there is none.
            clf: what predicts. A :class:`BayesianClassifier` (the default), a list of classifiers
                of scikit-activeml, or one of an ensemble (forest, bagging, soft voting) gives
                samples of its predictions. Any other classifier of theirs predicts itself where
                the strategy looks at averages alone; where samples are compared, ``n_members``
                copies of it are fitted, each on labels drawn with replacement, whatever
                ``fit_clf`` says.
            fit_clf: fit a copy of ``clf`` on X and y first; else ``clf`` has been fitted.
            sample_weight: (n,) weights for fitting ``clf``.
            X_target: (M, D) rows from the distribution the model will be judged on; by default a
                random 1,000 of X.
            candidates: positions in X, or rows (n_candidates, D); by default the unlabelled.
            batch_size: B.
            return_utilities: return the scores of the candidates as well.

        Returns:
            (B,) positions in X, or in ``candidates`` where these are rows. With utilities a second
            array (B, n) or (B, n_candidates): row b holds the scores by which item b was chosen,
            NaN for what could not be. In closed form (a ``BayesianClassifier`` with expectation
            propagation, which scores few candidates again) the rows after the first hold the
            lowest upper bounds that are known.
        """
        X, y, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True, check_X_dict={}
        )
        rows, mapping = self._transform_candidates(candidates, X, y)
        _utils.check_type(fit_clf, "fit_clf", bool)
        seed = int(self.random_state_.randint(2**31 - 1))
        self._check(clf, sample_weight, y)
        known = _utils.is_labeled(y, self.missing_label_)
        if X_target is None:
            order = derive_generator(seed, "target").permutation(len(X))
            X_target = X[np.sort(order[:_MOST_TARGETS])]
        strategy = strategy_named(self.strategy)
        model, labels = None, None
        if strategy.uses_predictions and self._is_enough(strategy, clf, y[known]):
            fitted = self._fitted(clf, X, y, sample_weight) if fit_clf else clf
            model = self._samples(strategy, clf, fitted, (X, y, sample_weight), known, seed)
        if model is not None:
            numbers = {label: number for number, label in enumerate(_classes(fitted))}
            labels = model.classes_[[numbers[label] for label in y[known].tolist()]]
        name = COLD_START if model is None and strategy.uses_predictions else self.strategy
        shown: list[np.ndarray] = []
        batch = select_batch_from_model(
            model or _Nothing(),
            rows,
            X_target,
            batch_size,
            name,
            n_universes=self.n_universes,
            random_state=seed,
            X_labelled=X[known] if known.any() else None,
            y_labelled=labels,
            loss=cast(Loss, self.loss),
            beta=self.beta,
            n_configurations=self.n_configurations,
            options=self.options if name == self.strategy else None,
            watch=shown.append if return_utilities else None,
        )
        places = batch.indices if mapping is None else mapping[batch.indices]
        if not return_utilities:
            return places
        utilities = _utilities(batch, shown, strategy)
        if mapping is None:
            return places, utilities
        everywhere = np.full((len(batch), len(X)), np.nan)
        everywhere[:, mapping] = utilities
        return places, everywhere

    def _check(self, clf: Any, sample_weight: Any, y: np.ndarray) -> None:
        """A classifier of theirs or a list of them, or TypeError; None is ours."""
        if sample_weight is not None:
            weights = _validation.check_array(sample_weight, ensure_2d=False)
            if weights.shape != y.shape:
                raise ValueError(
                    f"sample_weight has shape {weights.shape} and y {y.shape}; give one weight for "
                    "each row."
                )
        if clf is None:
            return
        for member in clf if isinstance(clf, list | tuple) and len(clf) else [clf]:
            _utils.check_type(member, "clf", _Classifier)
            _utils.check_equal_missing_label(member.missing_label, self.missing_label_)

    @staticmethod
    def _is_enough(strategy: Strategy, clf: Any, labels: np.ndarray) -> bool:
        """Whether a model of these labels says anything; ours has a prior."""
        n_seen = len(set(labels.tolist()))
        return n_seen >= 2 or (
            isinstance(clf, BayesianClassifier) and not (strategy.needs_labels and n_seen == 0)
        )

    def _fitted(self, clf: Any, X: Any, y: Any, weights: Any) -> Any:
        """A fitted copy of the classifier, of every one of a list."""
        if clf is None:
            clf = BayesianClassifier(missing_label=self.missing_label_, random_state=0)
        if isinstance(clf, list | tuple):
            return [self._fitted(member, X, y, weights) for member in clf]
        more = () if weights is None else (np.asarray(weights),)
        return _sklearn.clone(clf).fit(X, y, *more)

    def _samples(
        self, strategy: Strategy, clf: Any, fitted: Any, data: Any, known: np.ndarray, seed: int
    ) -> Any:
        """Something with ``sample_proba`` and ``classes_``; None where there is one class only."""
        classes = _classes(fitted)
        if len(classes) < 2:
            return None
        if isinstance(fitted, BayesianClassifier):
            return fitted.model_
        if isinstance(fitted, list | tuple):
            return _Committee(fitted)
        inner = getattr(fitted, "estimator_", None)
        if isinstance(inner, LogisticModel) and len(inner.classes_) == len(classes):
            return inner
        ensemble = _ensemble(inner, classes)
        if ensemble is not None:
            return ensemble
        if strategy.averages:
            return _Committee([fitted])
        member = _sklearn.clone(clf)
        member.classes = classes  # whichever of them a draw shows
        draw, places = derive_generator(seed, "committee"), np.flatnonzero(known)
        drawn = [draw.choice(places, len(places)) for _ in range(self.n_members)]
        parts = [[None if x is None else np.asarray(x)[rows] for x in data] for rows in drawn]
        return _Committee([self._fitted(member, *part) for part in parts])


class _Committee:
    """Fitted classifiers of theirs that know the same classes, as samples (N, K, C)."""

    def __init__(self, members: Sequence[Any]) -> None:
        self.members = members
        self.classes_ = np.arange(len(members[0].classes_))

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        probs = np.stack([member.predict_proba(X) for member in self.members], axis=1)
        return probs / probs.sum(axis=2, keepdims=True)


class _Nothing(_Committee):
    """For strategies that look at no prediction."""

    def __init__(self) -> None:
        self.classes_ = np.arange(2)


def _ensemble(inner: Any, classes: list[Any]) -> Any:
    """The members of a fitted scikit-learn ensemble as samples; None of anything else."""
    if not hasattr(inner, "estimators_"):
        return None
    try:
        model: Any = as_sample_model(inner, len(classes))
    except InputError:  # boosting and its like, whose members are not samples of the whole
        return None
    model.labels, model.classes_ = classes, np.arange(len(classes))
    return model


def _classes(fitted: Any) -> list[Any]:
    first = fitted[0] if isinstance(fitted, list | tuple) else fitted
    _validation.check_is_fitted(first)
    return first.classes_.tolist()


def _utilities(batch: Batch, shown: Sequence[np.ndarray], strategy: Strategy) -> np.ndarray:
    """(B, N) what was shown of the scores, NaN for what had been chosen before."""
    rows = np.array([shown[min(step, len(shown) - 1)] for step in range(len(batch))])
    if len(shown) == 1 and strategy.batch_aware and not strategy.stochastic:
        # Seen before the batch alone: a score seldom rises, and what was chosen was the highest.
        rows[1:] = np.minimum(rows[1:], batch.scores[1:, None])
        rows[np.arange(len(batch)), batch.indices] = batch.scores
    for step, index in enumerate(batch.indices):
        rows[step + 1 :, index] = np.nan
    return rows

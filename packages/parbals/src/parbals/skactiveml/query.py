"""All strategies as query strategies of scikit-activeml."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from skactiveml import base as _base
from skactiveml import utils as _utils
from skactiveml.classifier import SklearnClassifier
from sklearn.utils import check_array

from parbals.posterior.classifier import BayesianLogisticRegression
from parbals.randomness import derive_generator
from parbals.scores.losses import Loss
from parbals.select import select_batch_from_model
from parbals.skactiveml.classifier import NoModel, classes_of, fitted_copy, sample_model
from parbals.strategies.table import COLD_START_STRATEGY, DEFAULT_STRATEGY, Strategy, strategy_named
from parbals.types import DEFAULT_N_TARGETS, Batch

__all__ = ["ParbalsQuery"]

_Query: Any = _base.SingleAnnotatorPoolQueryStrategy


class ParbalsQuery(_Query):
    """A strategy of parbals, or of a package that adds one, for scikit-activeml.

    Until there are labels of two classes no classifier can be fitted, and ``kmeans`` chooses.

    >>> import numpy as np
    >>> from parbals.skactiveml import ParbalsQuery
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> y = np.full(30, np.nan)
    >>> y[:6] = [0, 1, 0, 1, 0, 1]
    >>> indices = ParbalsQuery("parbals-epig", random_state=0).query(X, y, batch_size=3)
    >>> len(indices), bool((indices >= 6).all())
    (3, True)

    Args:
        strategy: a name from ``parbals strategies``.
        n_universes: as in :func:`parbals.select_batch`.
        loss: as in :func:`parbals.select_batch`.
        beta: as in :func:`parbals.select_batch`.
        n_configurations: as in :func:`parbals.select_batch`.
        options: as in :func:`parbals.select_batch`.
        n_members: size of the bootstrap committee of a classifier that is not an ensemble.
        missing_label: as in ``SingleAnnotatorPoolQueryStrategy``.
        random_state: as in ``SingleAnnotatorPoolQueryStrategy``.
    """

    def __init__(
        self,
        strategy: str = DEFAULT_STRATEGY,
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
            y: (n,) labels, ``missing_label`` for unlabelled rows.
            clf: the classifier. Predictive samples come from a ``SklearnClassifier`` of
                :class:`parbals.BayesianLogisticRegression` (the default, which also uses the
                unlabelled rows to choose its prior) or of an ensemble (forest, bagging, soft
                voting), or from a list of classifiers. For any other classifier its prediction is
                used if the strategy needs averages only; otherwise ``n_members`` copies of it are
                fitted, each on labels drawn with replacement, even if ``fit_clf`` is False.
            fit_clf: fit a copy of ``clf`` on X and y; if False, ``clf`` is already fitted.
            sample_weight: (n,) weights for fitting ``clf``.
            X_target: (M, D) rows from the distribution the model will be used on; by default a
                random 1,000 of X.
            candidates: positions in X, or rows (n_candidates, D); by default the unlabelled rows.
            batch_size: B.
            return_utilities: also return the scores of the candidates.

        Returns:
            (B,) positions in X, or in ``candidates`` if these are rows. With utilities, a second
            array (B, n) or (B, n_candidates): row b holds the scores when item b was chosen, NaN
            for rows that could not be chosen. In closed form (a parbals model with expectation
            propagation, which scores few candidates again) the rows after the first hold the lowest
            known upper bounds.
        """
        X, y, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True, check_X_dict={}
        )
        rows, mapping = self._transform_candidates(candidates, X, y)
        _utils.check_type(fit_clf, "fit_clf", bool)
        seed = int(self.random_state_.randint(2**31 - 1))
        self._check(clf, sample_weight, y)
        is_labelled = _utils.is_labeled(y, self.missing_label_)
        strategy = strategy_named(self.strategy)
        model = None
        class_numbers = None
        n_known_classes = len(set(y[is_labelled].tolist()))
        has_two_classes = n_known_classes > 1
        if strategy.uses_predictions and has_two_classes:
            fitted = self._fitted(clf, X, y, sample_weight, fit_clf)
            unfitted = fitted if clf is None else clf
            data = (X, y, sample_weight)
            model = sample_model(
                strategy, unfitted, fitted, data, is_labelled, self.n_members, seed
            )
            if model is not None:
                number_of_class = {label: i for i, label in enumerate(classes_of(fitted))}
                numbers = [number_of_class[label] for label in y[is_labelled].tolist()]
                class_numbers = model.classes_[numbers]
        is_cold_start = model is None and strategy.uses_predictions
        if X_target is None and model is not None:
            order = derive_generator(seed, "target").permutation(len(X))
            X_target = X[np.sort(order[:DEFAULT_N_TARGETS])]
        step_scores: list[np.ndarray] = []
        batch = select_batch_from_model(
            model or NoModel(),
            rows,
            X_target,
            batch_size,
            COLD_START_STRATEGY if is_cold_start else self.strategy,
            n_universes=self.n_universes,
            random_state=seed,
            X_labelled=X[is_labelled] if is_labelled.any() else None,
            y_labelled=class_numbers,
            loss=cast(Loss, self.loss),
            beta=self.beta,
            n_configurations=self.n_configurations,
            options=None if is_cold_start else self.options,
            n_classes=max(2, n_known_classes) if model is None else None,
            watch=step_scores.append if return_utilities else None,
        )
        positions = batch.indices if mapping is None else mapping[batch.indices]
        if not return_utilities:
            return positions
        utilities = _utilities(batch, step_scores, strategy)
        if mapping is None:
            return positions, utilities
        utilities_of_all_rows = np.full((len(batch), len(X)), np.nan)
        utilities_of_all_rows[:, mapping] = utilities
        return positions, utilities_of_all_rows

    def _fitted(self, clf: Any, X: Any, y: Any, sample_weight: Any, fit_clf: bool) -> Any:
        """The fitted classifier, by default a :class:`parbals.BayesianLogisticRegression`."""
        if clf is None:
            model = BayesianLogisticRegression(random_state=np.random.RandomState(0))
            default = SklearnClassifier(model, missing_label=self.missing_label_)
            return default.fit(X, y, X_pool=X)
        return fitted_copy(clf, X, y, sample_weight) if fit_clf else clf

    def _check(self, clf: Any, sample_weight: Any, y: np.ndarray) -> None:
        """Raise TypeError unless ``clf`` is None, a scikit-activeml classifier or a list."""
        if sample_weight is not None:
            weights = check_array(sample_weight, ensure_2d=False)
            if weights.shape != y.shape:
                raise ValueError(
                    f"sample_weight has shape {weights.shape} and y {y.shape}; give one weight for "
                    "each row."
                )
        if clf is None:
            if sample_weight is not None:
                raise ValueError(
                    "The default model takes no sample_weight; pass a clf with sample_weight."
                )
            return
        for member in clf if isinstance(clf, list | tuple) and len(clf) else [clf]:
            _utils.check_type(member, "clf", _base.SkactivemlClassifier)
            _utils.check_equal_missing_label(member.missing_label, self.missing_label_)


def _utilities(batch: Batch, step_scores: Sequence[np.ndarray], strategy: Strategy) -> np.ndarray:
    """(B, N) scores of every step, NaN for points chosen before."""
    last = len(step_scores) - 1
    utilities = np.array([step_scores[min(step, last)] for step in range(len(batch))])
    if len(step_scores) == 1 and strategy.batch_aware and not strategy.stochastic:
        # Only scores before the batch are known. Scores seldom rise, and the chosen point had the
        # highest, so its score bounds all others.
        utilities[1:] = np.minimum(utilities[1:], batch.scores[1:, None])
        utilities[np.arange(len(batch)), batch.indices] = batch.scores
    for step, index in enumerate(batch.indices):
        utilities[step + 1 :, index] = np.nan
    return utilities

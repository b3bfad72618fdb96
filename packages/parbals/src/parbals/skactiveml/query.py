"""Every strategy as a query strategy of scikit-activeml."""

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
from parbals.skactiveml.classifier import Nothing, classes_of, fitted_copy, samples_of
from parbals.strategies.table import COLD_START, DEFAULT, Strategy, strategy_named
from parbals.types import TARGETS, Batch

__all__ = ["ParbalsQuery"]

_Query: Any = _base.SingleAnnotatorPoolQueryStrategy


class ParbalsQuery(_Query):
    """A strategy of parbals, or of a package that adds one, for a pool of scikit-activeml.

    Until labels of two classes are known a classifier says nothing yet, and ``kmeans`` chooses.

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
            clf: what predicts. A ``SklearnClassifier`` of
                :class:`parbals.BayesianLogisticRegression` (the default, which also looks at the
                rows without a label to choose its prior) or of an ensemble (forest, bagging, soft
                voting), or a list of classifiers, gives samples of its predictions. Any other
                classifier of theirs predicts itself where the strategy looks at averages alone;
                where samples are compared, ``n_members`` copies of it are fitted, each on labels
                drawn with replacement, whatever ``fit_clf`` says.
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
            NaN for what could not be. In closed form (our model with expectation propagation,
            which scores few candidates again) the rows after the first hold the lowest upper
            bounds that are known.
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
            X_target = X[np.sort(order[:TARGETS])]
        strategy = strategy_named(self.strategy)
        model, labels = None, None
        if strategy.uses_predictions and len(set(y[known].tolist())) > 1:
            if clf is None:
                ours = BayesianLogisticRegression(random_state=np.random.RandomState(0))
                clf = SklearnClassifier(ours, missing_label=self.missing_label_)
                clf.fit(X, y, X_pool=X)
                fit_clf = False
            fitted = fitted_copy(clf, X, y, sample_weight) if fit_clf else clf
            data = (X, y, sample_weight)
            model = samples_of(strategy, clf, fitted, data, known, self.n_members, seed)
        if model is not None:
            numbers = {label: number for number, label in enumerate(classes_of(fitted))}
            labels = model.classes_[[numbers[label] for label in y[known].tolist()]]
        name = COLD_START if model is None and strategy.uses_predictions else self.strategy
        shown: list[np.ndarray] = []
        batch = select_batch_from_model(
            model or Nothing(),
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
            weights = check_array(sample_weight, ensure_2d=False)
            if weights.shape != y.shape:
                raise ValueError(
                    f"sample_weight has shape {weights.shape} and y {y.shape}; give one weight for "
                    "each row."
                )
        if clf is None:
            if sample_weight is not None:
                raise ValueError("Our model counts labels alike; pass a clf with sample_weight.")
            return
        for member in clf if isinstance(clf, list | tuple) and len(clf) else [clf]:
            _utils.check_type(member, "clf", _base.SkactivemlClassifier)
            _utils.check_equal_missing_label(member.missing_label, self.missing_label_)


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

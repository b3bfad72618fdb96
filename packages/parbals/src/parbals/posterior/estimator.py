"""The Bayesian classifier on arrays; :mod:`parbals.posterior.classifier` adapts it to scikit-learn.

Nothing here imports scikit-learn, which takes longer than everything else that a batch needs.
"""

import copy
import warnings
from typing import Any, Self

import numpy as np

from parbals.arrays import block_rows
from parbals.errors import InputError, PosteriorWarning
from parbals.labels import check_classes, check_label_vector, check_labels, classes_shown
from parbals.machine import several_threads
from parbals.posterior.closed.labels import most_likely_class
from parbals.posterior.closed.prior import make_prior
from parbals.posterior.closed.whitening import PoolMoments
from parbals.posterior.inference import INFERENCES, Gaussian, Inference, Posterior, PreviousFit
from parbals.posterior.predictive import add_bias, contrast_basis, mean_proba, sample_proba
from parbals.posterior.smc import Population
from parbals.randomness import Seed, seed_from
from parbals.validate import check_choice, check_features, check_positive_int, check_prior_scale

__all__ = ["LogisticModel"]

_BLOCK_ROWS = 512  # that a thread predicts at a time


class LogisticModel:
    """Bayesian softmax regression with a Gaussian prior on all weights and biases.

    Two classes use the exactly equivalent half-size model (see
    :mod:`parbals.posterior.predictive`). There may be more features than labels, a single label, or
    classes without labels (declare those with ``classes``).

    >>> from parbals import BayesianLogisticRegression
    >>> X = [[-2.0], [-1.0], [1.0], [2.0]]
    >>> y = ["ham", "ham", "spam", "spam"]
    >>> model = BayesianLogisticRegression(random_state=0).fit(X, y)
    >>> model.predict([[-3.0], [3.0]]).tolist()
    ['ham', 'spam']
    >>> model.predict_proba([[-3.0], [3.0]]).shape
    (2, 2)
    >>> model.sample_proba([[-3.0], [3.0]]).shape
    (2, 400, 2)
    >>> model.condition([[0.5]], ["ham"]).predict([[0.5]]).tolist()
    ['ham']

    Args:
        n_samples: K, the number of posterior draws.
        prior_scale: "auto" learns scale and shape of the prior from the labels, see
            :mod:`parbals.posterior.closed.prior`; "even" learns the scale alone, for rows of an
            encoder that was fine-tuned on the labels; a number is the standard deviation of every
            weight and bias.
        inference: the inference method. "ep": a Gaussian by expectation propagation; predictions
            and the scores of EPIG and ParBaLS (of BALD with two classes) then have closed forms and
            no Monte-Carlo noise. "smc": a population of particles, all moved at once. "nuts":
            BlackJAX's No-U-Turn sampler (the trusted reference), with
            ``pip install 'parbals[jax]'``. "laplace": a Gaussian at the mode. "auto" (default):
            "ep" if it converges, else "smc". ``diagnostics_.inference`` is the method used;
            docs/explanation/trust.md compares each with long chains.
        classes: all class labels, if ``y`` may lack some; ``None`` takes them from ``y``.
        random_state: an integer makes every result reproducible on the same machine.

    Attributes:
        classes_: (C,) sorted class labels.
        n_features_in_: D.
        diagnostics_: quality of the draws, and a description of the prior.
        prior_scale_: standard deviation of a class's logit over the pool under the learnt prior, or
            the given number.
        prior_shape_: shape of the learnt prior, or "given".
        neighbourhood_share_: share of its variance that the learnt prior gives to columns of
            neighbourhoods, if ``X_pool`` has moments of such columns.
        coef_samples_: (K, C, D), weights that sum to zero over the classes (the component of the
            prior that no data can inform is omitted).
        intercept_samples_: (K, C), likewise.
    """

    _inference: Inference
    _posterior: Posterior

    def __init__(
        self,
        n_samples: int = 400,
        prior_scale: float | str = "auto",
        inference: str = "auto",
        classes: Any = None,
        random_state: Seed = None,
    ) -> None:
        self.n_samples = n_samples
        self.prior_scale = prior_scale
        self.inference = inference
        self.classes = classes
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        X_pool: Any = None,
        warm_start_from: "LogisticModel | None" = None,
        likelihoods: np.ndarray | None = None,
    ) -> Self:
        """Fit labelled rows.

        Args:
            X: features (n, D).
            y: labels (n,).
            X_pool: rows (m, D), or their
                :class:`~parbals.posterior.closed.whitening.PoolMoments`, that show
                ``prior_scale="auto"`` how features vary; by default the labelled rows.
            warm_start_from: a model fitted to nearly the same labels with the same settings and
                pool. With thousands of labels the sweeps of expectation propagation start from its
                sites, and predictions are within 1e-3 of those of a fresh fit.
            likelihoods: (n, C) where y is the consensus of noisy annotators: the likelihood of
                their answers under every class (:mod:`parbals.learner.annotators`). Used in closed
                form only.
        """
        self._check_settings()
        n_rows = len(check_features(X))
        y = check_label_vector(y, n_rows)
        classes = classes_shown(y) if self.classes is None else check_classes(self.classes)
        labels = check_labels(y, classes, n_rows)
        seed = seed_from(self.random_state)
        # Everything has been checked: only now does this object change.
        rows = self._rows(X, is_fit=True)
        self._fit_checked(rows, labels, classes, seed, X_pool, warm_start_from, likelihoods)
        self._warn_if_unreliable()
        return self

    def fit_prior(self, n_features: int, X_pool: Any = None) -> Self:
        """Become the model before any label; needs ``classes``. ``X_pool`` as in ``fit``."""
        self._check_settings()
        if self.classes is None:
            raise InputError(
                "Without labels the classes are unknown; declare them with classes=[...]."
            )
        classes = check_classes(self.classes)
        self.n_features_in_ = check_positive_int(n_features, "n_features")
        rows = np.empty((0, n_features))
        labels = np.empty(0, np.int32)
        self._fit_checked(rows, labels, classes, seed_from(self.random_state), X_pool)
        return self

    @several_threads()
    def condition(self, X_new: Any, y_new: Any) -> Self:
        """Return a NEW model whose posterior also knows these labels; this model is unchanged.

        The prior stays that of ``fit``. With ``inference="smc"`` the particles are reweighted by
        p(y_new | x_new), and resampled and moved only when their effective sample size falls below
        half of K.
        """
        X_new = add_bias(self._checked_rows(X_new, "X_new"))
        labels_new = check_labels(y_new, self.classes_, len(X_new), "y_new")
        model = copy.copy(self)
        model._set_posterior(self._inference.condition(self._posterior, X_new, labels_new))
        if model.diagnostics_.problems != self.diagnostics_.problems:
            model._warn_if_unreliable()
        return model

    def sample_proba(self, X: Any) -> np.ndarray:
        """Predictive samples p_k(y | x), (N, K, C) float32, weighted by ``sample_weights``."""
        rows = self._inference.prior.whitening.rows(add_bias(self._checked_rows(X)))
        return sample_proba(rows, self._posterior.coefficients, len(self.classes_))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Posterior predictive (N, C): Σ_k w_k p_k(y | x), or the closed form of a Gaussian."""
        rows = self._checked_rows(X)
        if self.gaussian is not None:
            return _predict_in_blocks(self.gaussian, rows)
        rows = self._inference.prior.whitening.rows(add_bias(rows))
        coefficients = self._posterior.coefficients
        return mean_proba(rows, coefficients, len(self.classes_), self.sample_weights)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class (N,) of each row."""
        most_probable = self.predict_proba(X).argmax(axis=1)
        return self.classes_[most_probable]

    @property
    def sample_weights(self) -> np.ndarray:
        """Weights (K,) of the posterior draws, read-only: they sum to one, equal after ``fit``."""
        self._check_fitted()
        weights = np.asarray(self._posterior.weights).view()
        weights.flags.writeable = False
        return weights

    @property
    def coef_samples_(self) -> np.ndarray:
        return self._class_weights()[:, :, :-1]

    @property
    def intercept_samples_(self) -> np.ndarray:
        return self._class_weights()[:, :, -1]

    @property
    def population(self) -> Population | None:
        """Particles of an "smc" model, for algorithms that condition copies of it; else None."""
        self._check_fitted()
        state = self._posterior.state
        return state if isinstance(state, Population) else None

    @property
    def gaussian(self) -> Gaussian | None:
        """The Gaussian posterior of an "ep" or "auto" model, for closed-form scores; else None."""
        self._check_fitted()
        state = self._posterior.state
        return state if isinstance(state, Gaussian) else None

    @property
    def labelled_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Features (n, D) and class numbers (n,) of the labelled rows."""
        self._check_fitted()
        return self._posterior.X[:, :-1], most_likely_class(self._posterior.labels)

    @property
    def prior_scale_(self) -> float:
        self._check_fitted()
        return self._inference.prior.scale

    @property
    def prior_shape_(self) -> str:
        self._check_fitted()
        return self._inference.prior.shape

    @property
    def neighbourhood_share_(self) -> float:
        self._check_fitted()
        return self._inference.prior.neighbourhood_share

    def _warn_if_unreliable(self) -> None:
        """Warn about every failed check: a posterior that failed one is never used silently."""
        for problem in self.diagnostics_.problems:
            warnings.warn(problem, PosteriorWarning, stacklevel=3)

    def _check_settings(self) -> None:
        check_positive_int(self.n_samples, "n_samples", minimum=2)
        check_prior_scale(self.prior_scale)
        check_choice(self.inference, INFERENCES, "inference")

    @several_threads()  # BLAS threads would spend more time waiting than computing
    def _fit_checked(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        classes: np.ndarray,
        seed: int,
        X_pool: Any,
        warm_start_from: "LogisticModel | None" = None,
        likelihoods: np.ndarray | None = None,
    ) -> None:
        """Choose the prior and fit checked rows (n, D) and class numbers (n,)."""
        rows = np.ascontiguousarray(rows)  # data frames are laid out column by column
        pool = X_pool
        if not (pool is None or isinstance(pool, PoolMoments)):
            pool = PoolMoments.of(check_features(pool, "X_pool", self.n_features_in_))
        previous = None
        previous_prior = None
        if warm_start_from is not None and warm_start_from.gaussian is not None:
            previous_prior = warm_start_from._inference.prior
            previous = PreviousFit(warm_start_from.gaussian, previous_prior)
        prior = make_prior(
            self.prior_scale, rows, labels, len(classes), pool, previous_prior, likelihoods
        )
        self.classes_ = classes
        self._inference = Inference(
            method=self.inference,
            n_samples=self.n_samples,
            n_classes=len(classes),
            prior=prior,
            seed=seed,
        )
        observed = labels if likelihoods is None else likelihoods
        self._set_posterior(self._inference.posterior(add_bias(rows), observed, previous))

    def _set_posterior(self, posterior: Posterior) -> None:
        self._posterior = posterior
        self.diagnostics_ = posterior.diagnostics

    def _checked_rows(self, X: Any, name: str = "X") -> np.ndarray:
        """Check features (N, D) against those of the fit."""
        self._check_fitted()
        check_features(X, name, self.n_features_in_)
        return self._rows(X)

    def _rows(self, X: Any, *, is_fit: bool = False) -> np.ndarray:
        """Checked features (N, D) as floats; those of a fit set ``n_features_in_``."""
        rows = np.asarray(X)
        if is_fit or rows.dtype != np.float32:  # single precision is not copied: it may be a pool
            rows = rows.astype(np.float64, copy=False)
        if is_fit:
            self.n_features_in_ = rows.shape[1]
        return rows

    def _check_fitted(self) -> None:
        if not hasattr(self, "_posterior"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _class_weights(self) -> np.ndarray:
        """Draws (K, C, D+1) of the class weights and, last, biases."""
        self._check_fitted()
        weights = self._inference.prior.whitening.weights(self._posterior.coefficients)
        return np.einsum("cj,djk->kcd", contrast_basis(len(self.classes_)), weights)


def _predict_in_blocks(posterior: Gaussian, rows: np.ndarray) -> np.ndarray:
    """Probabilities (N, C) of features (N, D), on several threads."""
    probs = np.empty((len(rows), posterior.n_classes))

    def write(block: slice) -> None:
        probs[block] = posterior.predict_proba(add_bias(rows[block]))

    with several_threads() as workers:
        workers.map(write, block_rows(len(rows), _BLOCK_ROWS))
    return probs

"""The Bayesian classifier on arrays; :mod:`parbals.posterior.classifier` is for scikit-learn.

Nothing here loads scikit-learn, which takes longer than everything else that a batch needs.
"""

import copy
import warnings
from typing import Any, Self

import numpy as np

from parbals.arrays import block_rows
from parbals.errors import InputError, PosteriorWarning
from parbals.labels import check_classes, check_label_vector, check_labels, classes_shown
from parbals.machine import several_threads
from parbals.posterior.closed.prior import PoolMoments, make_prior
from parbals.posterior.closed.sites import most_likely_class
from parbals.posterior.inference import INFERENCES, Gaussian, Inference, NearFit, Posterior
from parbals.posterior.predictive import add_bias, contrast_basis, mean_proba, sample_proba
from parbals.posterior.smc import Population
from parbals.randomness import Seed, seed_from
from parbals.validate import check_choice, check_features, check_positive_int, check_prior_scale

__all__ = ["LogisticModel"]

_BLOCK = 512  # rows that a thread predicts at a time


class LogisticModel:
    """Softmax regression with a Gaussian prior for the weights and the bias of every class.

    Two classes use the exactly equivalent half-size model (see
    :mod:`parbals.posterior.predictive`). There may be more features than labels, a single label, or
    classes that no label has shown yet (declare those with ``classes``).

    Args:
        n_samples: K, the number of posterior draws.
        prior_scale: "auto" learns scale and shape of the prior from the labels, see
            :mod:`parbals.posterior.closed.prior`, "even" the scale alone, for rows of an encoder
            that the labels have taught; a number is the deviation of every weight and bias.
        inference: "ep", a Gaussian by expectation propagation: predictions and the scores of EPIG
            and ParBaLS (of BALD with two classes) then have closed forms and no Monte-Carlo noise;
            "smc", a population of particles moved all at once; "nuts", BlackJAX's No-U-Turn sampler
            (the trusted reference), with ``pip install 'parbals[jax]'``; "laplace", a Gaussian at
            the mode; "auto" (default), "ep" where it settles, else "smc".
            ``diagnostics_.inference`` says which it was; docs/explanation/trust.md shows
            how far each is from long chains.
        classes: all class labels, when ``y`` may not show every one; ``None`` takes them from
            ``y``.
        random_state: an integer makes every result reproducible on the same machine.

    Attributes:
        classes_: (C,) sorted class labels.
        n_features_in_: D.
        diagnostics_: what the draws say about their own quality, and which prior it was.
        prior_scale_: the deviation of a class's logit over the pool under the prior that was
            chosen, or the number that was given.
        prior_shape_: the shape that was chosen, or "given".
        coef_samples_: (K, C, D), weights that sum to zero over the classes (the part of the prior
            that no data can inform is left out).
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
        """The posterior given labelled rows X (n, D), y (n,).

        ``X_pool``: rows (m, D), or their
        :class:`~parbals.posterior.closed.whitening.PoolMoments`, that show ``prior_scale="auto"``
        how features vary; without them the labelled rows do. ``warm_start_from``: a model fitted to
        nearly
        the same labels with the same settings and pool. With thousands of labels the sweeps of
        expectation propagation start with its sites, and predictions are within 1e-3 of what they
        would be. ``likelihoods`` (n, C): where y is what fallible people came to, how likely their
        answers are by every class (:mod:`parbals.learner.annotators`); of use in closed form.
        """
        self._check_settings()
        n_rows = len(check_features(X))
        y = check_label_vector(y, n_rows)
        classes = classes_shown(y) if self.classes is None else check_classes(self.classes)
        labels = check_labels(y, classes, n_rows)
        seed = seed_from(self.random_state)
        # Everything has been checked: only now does this object change.
        self._infer(
            self._rows(X, first=True), labels, classes, seed, X_pool, warm_start_from, likelihoods
        )
        self._warn_if_unreliable()
        return self

    def fit_prior(self, n_features: int, X_pool: Any = None) -> Self:
        """The prior, the model before any label; needs ``classes``. ``X_pool`` as in ``fit``."""
        self._check_settings()
        if self.classes is None:
            raise InputError(
                "Without labels the classes are unknown; declare them with classes=[...]."
            )
        classes = check_classes(self.classes)
        self.n_features_in_ = check_positive_int(n_features, "n_features")
        rows, labels = np.empty((0, n_features)), np.empty(0, np.int32)
        self._infer(rows, labels, classes, seed_from(self.random_state), X_pool)
        return self

    @several_threads()
    def condition(self, X_new: Any, y_new: Any) -> Self:
        """A NEW model whose posterior also knows these labels; this model is left as it is.

        The prior stays the one that ``fit`` chose.
        With ``inference="smc"`` the particles are reweighted by p(y_new | x_new), and resampled and
        moved only when their effective sample size falls below half of K.
        """
        X_new = add_bias(self._checked(X_new, "X_new"))
        labels_new = check_labels(y_new, self.classes_, len(X_new), "y_new")
        model = copy.copy(self)
        model._take(self._inference.condition(self._posterior, X_new, labels_new))
        if model.diagnostics_.problems != self.diagnostics_.problems:
            model._warn_if_unreliable()
        return model

    def sample_proba(self, X: Any) -> np.ndarray:
        """(N, K, C) float32: p_k(y | x) of every posterior draw; ``sample_weights`` weigh them."""
        rows = self._inference.prior.whitening.rows(add_bias(self._checked(X)))
        return sample_proba(rows, self._posterior.coefficients, len(self.classes_))

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, C): the posterior predictive, Σ_k w_k p_k(y | x); of a Gaussian without draws."""
        rows = self._checked(X)
        if self.gaussian is not None:
            return _in_blocks(self.gaussian, rows)
        rows = self._inference.prior.whitening.rows(add_bias(rows))
        coefficients = self._posterior.coefficients
        return mean_proba(rows, coefficients, len(self.classes_), self.sample_weights)

    def predict(self, X: Any) -> np.ndarray:
        """(N,) most probable class of each row."""
        most_probable = self.predict_proba(X).argmax(axis=1)  # which says if it is not fitted
        return self.classes_[most_probable]

    @property
    def sample_weights(self) -> np.ndarray:
        """(K,) weights of the posterior draws; they sum to one and are equal after ``fit``.

        Read-only.
        """
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
        """The particles of an "smc" model, for algorithms that condition hypothetical copies."""
        self._check_fitted()
        state = self._posterior.state
        return state if isinstance(state, Population) else None

    @property
    def gaussian(self) -> Gaussian | None:
        """The Gaussian posterior of an "ep" model (or "auto"), for scores in closed form."""
        self._check_fitted()
        state = self._posterior.state
        return state if isinstance(state, Gaussian) else None

    @property
    def labelled_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The features (n, D) and class numbers (n,) that the posterior knows."""
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

    def _warn_if_unreliable(self) -> None:
        """Tell the user about every failed check: a posterior is never used silently after one."""
        for problem in self.diagnostics_.problems:
            warnings.warn(problem, PosteriorWarning, stacklevel=3)

    def _check_settings(self) -> None:
        check_positive_int(self.n_samples, "n_samples", least=2)
        check_prior_scale(self.prior_scale)
        check_choice(self.inference, INFERENCES, "inference")

    @several_threads()  # the library's own would spin more than they compute
    def _infer(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        classes: np.ndarray,
        seed: int,
        X_pool: Any,
        warm_start_from: "LogisticModel | None" = None,
        likelihoods: np.ndarray | None = None,
    ) -> None:
        """Become the model of checked rows (n, D) and class numbers (n,), by which the prior is."""
        rows = np.ascontiguousarray(rows)  # a data frame's lie column by column
        pool = X_pool
        if not (pool is None or isinstance(pool, PoolMoments)):
            pool = PoolMoments.of(check_features(pool, "X_pool", self.n_features_in_))
        start = None
        if warm_start_from is not None and warm_start_from.gaussian is not None:
            start = NearFit(warm_start_from.gaussian, warm_start_from._inference.prior)
        known = None if start is None else start.prior
        prior = make_prior(self.prior_scale, rows, labels, len(classes), pool, known)
        self.classes_ = classes
        self._inference = Inference(self.inference, self.n_samples, len(classes), prior, seed)
        answered = labels if likelihoods is None else likelihoods
        self._take(self._inference.posterior(add_bias(rows), answered, start))

    def _take(self, posterior: Posterior) -> None:
        self._posterior, self.diagnostics_ = posterior, posterior.diagnostics

    def _checked(self, X: Any, name: str = "X") -> np.ndarray:
        """Features (N, D) like those of the fit."""
        self._check_fitted()
        check_features(X, name, self.n_features_in_)
        return self._rows(X)

    def _rows(self, X: Any, *, first: bool = False) -> np.ndarray:
        """Checked features (N, D) as floats; the ``first`` ones say what later ones must be."""
        rows = np.asarray(X)
        if first or rows.dtype != np.float32:  # single precision is not copied: it may be a pool
            rows = rows.astype(np.float64, copy=False)
        if first:
            self.n_features_in_ = rows.shape[1]
        return rows

    def _check_fitted(self) -> None:
        if not hasattr(self, "_posterior"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _class_weights(self) -> np.ndarray:
        self._check_fitted()
        weights = self._inference.prior.whitening.weights(self._posterior.coefficients)
        return np.einsum("cj,djk->kcd", contrast_basis(len(self.classes_)), weights)


def _in_blocks(posterior: Gaussian, rows: np.ndarray) -> np.ndarray:
    """(N, C) probabilities of features (N, D), on several threads."""
    probs = np.empty((len(rows), posterior.n_classes))

    def write(block: slice) -> None:
        probs[block] = posterior.predict_proba(add_bias(rows[block]))

    with several_threads() as workers:
        workers.map(write, block_rows(len(rows), _BLOCK))
    return probs

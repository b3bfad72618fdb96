"""The Bayesian classifier on arrays; :mod:`parbals.posterior.classifier` is for scikit-learn.

Nothing here loads scikit-learn, which takes longer than everything else that a batch needs.
"""

import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from parbals.errors import InputError, LabelError
from parbals.posterior.contrasts import contrast_basis
from parbals.posterior.diagnostics import Diagnostics, warn_if_unreliable
from parbals.posterior.ep import GaussianPosterior, fit_gaussian
from parbals.posterior.ep_classes import ClassesPosterior, fit_classes
from parbals.posterior.population import Population
from parbals.posterior.predictive import add_bias, mean_proba, sample_proba
from parbals.posterior.prior import PoolMoments, fixed_prior, learnt_prior
from parbals.posterior.reference import laplace_reference
from parbals.randomness import Seed, derive_generator, seed_from
from parbals.validate import (
    check_choice,
    check_classes,
    check_features,
    check_label_vector,
    check_labels,
    check_positive_int,
    check_prior_scale,
    classes_shown,
    label_array,
)

__all__ = ["INFERENCES", "LogisticModel"]

INFERENCES = ("smc", "auto", "ep", "nuts", "laplace")


class LogisticModel:
    """Softmax regression with a Gaussian prior for the weights and the bias of every class.

    Two classes use the exactly equivalent half-size model (see
    :mod:`parbals.posterior.likelihood`). There may be more features than labels, a single label, or
    classes that no label has shown yet (declare those with ``classes``).

    Args:
        n_samples: K, the number of posterior draws.
        prior_scale: "auto" learns scale and shape of the prior from the labels, see
            :mod:`parbals.posterior.prior`; a number is the standard deviation of every weight and
            bias.
        inference: "smc", a population of particles moved all at once (fast, default); "nuts",
            BlackJAX's No-U-Turn sampler (the trusted reference); "laplace", a Gaussian at the mode;
            "ep", a Gaussian by expectation propagation: predictions and the scores of EPIG and
            ParBaLS (of BALD with two classes) then have closed forms and no Monte-Carlo noise;
            "auto", "ep" where it settles, else "smc". ``diagnostics_.inference`` says which it was;
            docs/trust.md shows how far each is from long chains.
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

    def __init__(
        self,
        n_samples: int = 400,
        prior_scale: float | str = "auto",
        inference: str = "smc",
        classes: Any = None,
        random_state: Seed = None,
    ) -> None:
        self.n_samples = n_samples
        self.prior_scale = prior_scale
        self.inference = inference
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: Any, X_pool: Any = None) -> Self:
        """The posterior given labelled rows X (n, D), y (n,).

        ``X_pool``: rows (m, D), or their :class:`~parbals.posterior.prior.PoolMoments`, that show
        ``prior_scale="auto"`` how features vary; without them the labelled rows do.
        """
        self._check_settings()
        n_rows = len(check_features(X))
        y = check_label_vector(_label_vector(y), n_rows)
        classes = classes_shown(y) if self.classes is None else check_classes(self.classes)
        labels = check_labels(y, classes, n_rows)
        seed = seed_from(self.random_state)
        # Everything has been checked: only now does this object change.
        rows = self._rows(X, first=True)
        self.classes_, self._seed = classes, seed
        self._set_prior(rows, labels, self._pool_moments(X_pool))
        self._draw(add_bias(rows), labels)
        warn_if_unreliable(self.diagnostics_)
        return self

    def fit_prior(self, n_features: int, X_pool: Any = None) -> Self:
        """The prior, the model before any label; needs ``classes``. ``X_pool`` as in ``fit``."""
        self._check_settings()
        if self.classes is None:
            raise InputError(
                "Without labels the classes are unknown; declare them with classes=[...]."
            )
        classes = check_classes(self.classes)
        self.classes_ = classes
        self.n_features_in_ = check_positive_int(n_features, "n_features")
        self._seed = seed_from(self.random_state)
        rows, labels = np.empty((0, n_features)), np.empty(0, np.int32)
        self._set_prior(rows, labels, self._pool_moments(X_pool))
        self._draw(add_bias(rows), labels)
        return self

    def condition(self, X_new: Any, y_new: Any) -> Self:
        """A NEW model whose posterior also knows these labels; this model is left as it is.

        The prior stays the one that ``fit`` chose.
        With ``inference="smc"`` the particles are reweighted by p(y_new | x_new), and resampled and
        moved only when their effective sample size falls below half of K.
        """
        X_new = self._design(X_new, "X_new")
        labels_new = check_labels(_label_vector(y_new, "y_new"), self.classes_, len(X_new), "y_new")
        model = copy.copy(self)
        if isinstance(self._state, Population):
            model._X = np.concatenate([self._X, X_new])
            model._labels = np.concatenate([self._labels, labels_new])
            from parbals.posterior.smc import condition_population

            rows = self._prior.whitening.rows(X_new)
            model._accept(condition_population(self._state, rows, labels_new, self._seed))
        elif isinstance(self._state, GaussianPosterior | ClassesPosterior):
            model._accept_gaussian(self._state.condition(X_new, labels_new))
        else:
            X = np.concatenate([self._X, X_new])
            model._draw(X, np.concatenate([self._labels, labels_new]))
        if model.diagnostics_.problems != self.diagnostics_.problems:
            warn_if_unreliable(model.diagnostics_)
        return model

    def sample_proba(self, X: Any) -> np.ndarray:
        """(N, K, C) float32: p_k(y | x) of every posterior draw; ``sample_weights`` weigh them."""
        rows = self._prior.whitening.rows(self._design(X))
        return sample_proba(rows, self._coefficients, len(self.classes_))

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, C): the posterior predictive, Σ_k w_k p_k(y | x); of a Gaussian without draws."""
        design = self._design(X)
        if isinstance(self._state, GaussianPosterior | ClassesPosterior):
            return self._state.predict_proba(design)
        rows = self._prior.whitening.rows(design)
        return mean_proba(rows, self._coefficients, len(self.classes_), self.sample_weights)

    def predict(self, X: Any) -> np.ndarray:
        """(N,) most probable class of each row."""
        most_probable = self.predict_proba(X).argmax(axis=1)
        return self.classes_[most_probable]

    @property
    def sample_weights(self) -> np.ndarray:
        """(K,) weights of the posterior draws; they sum to one and are equal after ``fit``.

        Read-only.
        """
        self._check_fitted()
        weights = np.asarray(self._weights).view()
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
        return self._state if isinstance(self._state, Population) else None

    @property
    def gaussian(self) -> GaussianPosterior | ClassesPosterior | None:
        """The Gaussian posterior of an "ep" model (or "auto"), for scores in closed form."""
        self._check_fitted()
        return (
            self._state if isinstance(self._state, GaussianPosterior | ClassesPosterior) else None
        )

    @property
    def labelled_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The features (n, D) and class numbers (n,) that the posterior knows."""
        self._check_fitted()
        return self._X[:, :-1], self._labels

    @property
    def prior_scale_(self) -> float:
        self._check_fitted()
        return self._prior.scale

    @property
    def prior_shape_(self) -> str:
        self._check_fitted()
        return self._prior.shape

    def _check_settings(self) -> None:
        check_positive_int(self.n_samples, "n_samples", least=2)
        check_prior_scale(self.prior_scale)
        check_choice(self.inference, INFERENCES, "inference")

    def _pool_moments(self, X_pool: Any) -> PoolMoments | None:
        if X_pool is None or isinstance(X_pool, PoolMoments):
            return X_pool
        return PoolMoments.of(check_features(X_pool, "X_pool", self.n_features_in_))

    def _set_prior(self, rows: np.ndarray, labels: np.ndarray, pool: PoolMoments | None) -> None:
        if isinstance(self.prior_scale, str):
            self._prior = learnt_prior(rows, labels, len(self.classes_), pool)
        else:
            self._prior = fixed_prior(float(self.prior_scale), rows.shape[1])

    def _draw(self, X: np.ndarray, labels: np.ndarray) -> None:
        """Replace the posterior by one of design rows X (n, D+1)."""
        self._X, self._labels = X, labels
        self._state: Population | GaussianPosterior | ClassesPosterior | None = None
        self._drawn: np.ndarray | None = None
        self._weights = np.full(self.n_samples, 1.0 / self.n_samples)
        if self.inference in ("ep", "auto"):
            whitening = self._prior.whitening
            if len(self.classes_) == 2:
                # The difference of two classes' weights has twice the variance of each.
                twice = whitening.times(np.sqrt(2.0))
                self._accept_gaussian(fit_gaussian(X, labels, twice, self._prior.sites))
            else:
                self._accept_gaussian(fit_classes(X, labels, len(self.classes_), whitening))
            return
        # In whitened coordinates the prior is N(0, 1).
        arguments = self._prior.whitening.rows(X), labels, len(self.classes_), 1.0
        if self.inference == "smc":
            self._accept(self._particles(*arguments))
        elif self.inference == "nuts":
            # Loaded only here: importing the sampling library takes longer than a whole "smc" fit.
            from parbals.posterior.nuts import draw_nuts

            drawn = draw_nuts(self._seed, *arguments, self.n_samples)
            self._drawn, diagnostics = drawn.coefficients, drawn.diagnostics
            self.diagnostics_ = replace(diagnostics, prior=self._prior.sentence)
        else:
            reference = laplace_reference(*arguments)
            generator = derive_generator(self._seed, "laplace", len(X))
            self._drawn = reference.colour(
                generator.standard_normal((*reference.mean.shape, self.n_samples))
            )
            self.diagnostics_ = Diagnostics(
                "laplace", self.n_samples, float(self.n_samples), prior=self._prior.sentence
            )

    def _particles(
        self, rows: np.ndarray, labels: np.ndarray, n_classes: int, prior_scale: float
    ) -> Population:
        # Loaded only here, as NUTS is: JAX is not needed for anything else.
        from parbals.posterior.smc import draw_population

        return draw_population(self._seed, rows, labels, n_classes, prior_scale, self.n_samples)

    def _accept(self, population: Population) -> None:
        self._state = replace(population, whitening=self._prior.whitening)
        self._drawn = population.coefficients()
        self._weights = population.weights
        self.diagnostics_ = replace(population.diagnostics, prior=self._prior.sentence)

    def _accept_gaussian(self, posterior: GaussianPosterior | ClassesPosterior) -> None:
        """Take it; with "auto", one that did not settle gives its place to particles."""
        self._X, self._labels = posterior.X, posterior.labels
        if self.inference == "auto" and posterior.problems():
            rows = self._prior.whitening.rows(posterior.X)
            arguments = rows, posterior.labels, posterior.n_classes, 1.0
            self._accept(self._particles(*arguments))
            return
        self._state, self._drawn = posterior, None
        self.diagnostics_ = Diagnostics(
            "ep",
            self.n_samples,
            float(self.n_samples),
            problems=posterior.problems(),
            prior=self._prior.sentence,
        )

    @property
    def _coefficients(self) -> np.ndarray:
        """Whitened contrast weights (D+1, J, K); a Gaussian's are drawn when they are needed."""
        if self._drawn is None:
            posterior = self._state
            assert isinstance(posterior, GaussianPosterior | ClassesPosterior)
            generator = derive_generator(self._seed, "ep", len(posterior.X))
            draws = posterior.channels.draw_whitened(generator, self.n_samples)
            # With two classes the one channel, of unit prior variance, is the one contrast.
            if isinstance(posterior, ClassesPosterior):
                draws = np.einsum("cj,dck->djk", contrast_basis(posterior.n_classes), draws)
            self._drawn = draws
        return self._drawn

    def _design(self, X: Any, name: str = "X") -> np.ndarray:
        self._check_fitted()
        check_features(X, name, self.n_features_in_)
        return add_bias(self._rows(X))

    def _rows(self, X: Any, *, first: bool = False) -> np.ndarray:
        """Checked features (N, D) in float64; the ``first`` ones say what later ones must be."""
        rows = np.asarray(X, np.float64)
        if first:
            self.n_features_in_ = rows.shape[1]
        return rows

    def _check_fitted(self) -> None:
        if not hasattr(self, "_weights"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _class_weights(self) -> np.ndarray:
        self._check_fitted()
        weights = self._prior.whitening.weights(self._coefficients)
        return np.einsum("cj,djk->kcd", contrast_basis(len(self.classes_)), weights)


def _label_vector(y: Any, name: str = "y") -> np.ndarray:
    """Labels (n,), with scikit-learn's warning when they come as a column (n, 1)."""
    if y is None:
        raise LabelError(
            f"This classifier requires {name} to be passed, but the target {name} is None; give "
            "one label for each row."
        )
    y = label_array(y, name)
    if y.ndim != 2 or y.shape[1] != 1:
        return y
    from sklearn.utils.validation import column_or_1d

    return column_or_1d(y, warn=True)

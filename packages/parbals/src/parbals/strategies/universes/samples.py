"""Universes of posterior samples, each conditioned on its own labels of the partial batch.

Universe u has one joint labelling of the pool: one parameter vector θ_u is drawn from the
posterior, and every label from p(·|x, θ_u). A label is computed when its point enters the batch,
from noise keyed by the point itself, so the labelling is fixed from the start and costs nothing.

Two classes share one interface. ``ReweightedUniverses`` have predictive samples only: conditioning
on a label multiplies the weights of the K samples. ``ParticleUniverses`` condition the population
of a particle model, which is resampled and moved when its effective sample size falls.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import bucket, effective_sample_size
from parbals.machine import on_host
from parbals.posterior.predictive import class_probs, contrast_basis, softmax
from parbals.posterior.smc import Population, condition_population
from parbals.randomness import derive_generator
from parbals.scores.bound import bound_of_points
from parbals.scores.epig import TargetStats, epig_of_points, target_stats
from parbals.scores.losses import ClassWeights, Loss
from parbals.scores.rows import LazyPoints, class_rows, to_device
from parbals.shapes import Array, Float
from parbals.strategies.problem import ModelView
from parbals.strategies.universes.labels import KeyedNoise, class_keys

__all__ = ["ParticleUniverses", "PseudoLabels", "ReweightedUniverses", "Universe", "branch"]


class Cloud(NamedTuple):
    """Predictions of K posterior samples for the pool and the target set."""

    pool: Any  # (N, A, K), or an object that computes them for ``pool[rows]``
    target: Float[Array, "M A K"]
    class_weights: ClassWeights | None = None


@dataclass(frozen=True)
class Universe:
    """One universe: a cloud of samples and their unnormalised log weights (K,)."""

    cloud: Cloud
    log_weights: np.ndarray
    population: Population | None = None  # the particles, for a particle model

    @cached_property
    def weights(self) -> np.ndarray:
        """(K,) normalised, in the precision of the cloud."""
        return softmax(self.log_weights).astype(self.cloud.target.dtype)

    @property
    def statistics(self) -> TargetStats:
        """Statistics of the targets: as large as their rows and cheap, so they are not cached."""
        return target_stats(self.cloud.target, self.weights, self.cloud.class_weights)

    @cached_property
    def effective_sample_size(self) -> float:
        """Number of equally weighted samples that the weights are worth."""
        return float(effective_sample_size(self.weights.astype(np.float64)))

    def score_pool(self, loss: Loss) -> np.ndarray:
        """(N,) exact EPIG (or error reduction) of every pool point."""
        scores = epig_of_points(self.cloud.pool, self.weights, self.statistics, loss)
        return scores.astype(np.float64)

    def bound_pool(self) -> np.ndarray:
        """(N,) certified upper bounds on the EPIG of every pool point."""
        bounds = bound_of_points(self.cloud.pool, self.weights, self.statistics)
        return bounds.astype(np.float64)

    def score_points(self, indices: np.ndarray, loss: Loss) -> np.ndarray:
        """Exact EPIG (or error reduction) of chosen pool points."""
        n_points = len(indices)
        if not on_host():  # a compiled program accepts one number of points only
            indices = np.resize(indices, bucket(n_points))
        rows = self.cloud.pool[indices]
        scores = epig_of_points(rows, self.weights, self.statistics, loss)
        return scores[:n_points].astype(np.float64)


class PseudoLabels:
    """Labels of the partial batch in every universe: drawn given θ_u, or the most probable (MAP).

    Args:
        seed: of the noise.
        map_probs: (N, C) mean predictions; if given, every label is their most probable class.
    """

    def __init__(self, seed: int, map_probs: np.ndarray | None = None) -> None:
        self._noise = KeyedNoise(seed)
        self._map_probs = map_probs

    def label(self, index: int, universes: "ReweightedUniverses | ParticleUniverses") -> np.ndarray:
        """Labels (U,) of a pool point; one label (1,) with ``map_probs``."""
        if self._map_probs is not None:
            return np.array([self._map_probs[index].argmax()])
        with np.errstate(divide="ignore"):
            logits = np.log(universes.label_probs(index))
        return self._noise.label(logits, universes.content(index))


class ReweightedUniverses:
    """Universes over predictive samples (N, K, C) and (M, K, C) with weights (K,).

    There are no ``notes``: the effective sample size shows when the weights collapse.
    """

    notes: tuple[str, ...] = ()

    def __init__(
        self,
        pool_probs: np.ndarray,
        target_probs: np.ndarray,
        weights: np.ndarray,
        n_universes: int,
        seed: int,
        class_weights: ClassWeights | None = None,
    ) -> None:
        self._probs = pool_probs
        dtype = np.result_type(pool_probs, target_probs)
        pool = to_device(class_rows(pool_probs).astype(dtype, copy=False))
        target = to_device(class_rows(target_probs).astype(dtype, copy=False))
        with np.errstate(divide="ignore"):
            start = Universe(Cloud(pool, target, class_weights), np.log(weights))
        self.members: tuple[Universe, ...] = (start,) * n_universes
        # The sample θ_u of each universe.
        self._samples = derive_generator(seed, "universes").choice(
            len(weights), n_universes, p=weights
        )

    def label_probs(self, index: int) -> np.ndarray:
        """(U, C): p(· | x, θ_u) of a pool point in every universe."""
        return self._probs[index, self._samples].astype(np.float64)

    def content(self, index: int) -> list[bytes]:
        """Keys of a pool point's noise, one for each class: the predictions themselves."""
        return [np.ascontiguousarray(column).tobytes() for column in self._probs[index].T]

    def observe(self, index: int, labels: np.ndarray) -> None:
        """Condition universe u on label ``labels[u]`` of the pool point."""
        with np.errstate(divide="ignore"):
            log_probs = np.log(self._probs[index].astype(np.float64))

        def conditioned(member: Universe, label: int) -> Universe:
            return Universe(member.cloud, member.log_weights + log_probs[:, label])

        self.members = branch(self.members, labels, conditioned)


class ParticleUniverses:
    """Universes of a particle model: each has a population conditioned on its labels.

    The ``notes`` are the problems that the populations reported while they moved.
    """

    def __init__(
        self,
        model: ModelView,
        n_universes: int,
        seed: int,
        class_weights: ClassWeights | None = None,
    ) -> None:
        self._model = model
        self._class_weights = class_weights
        self._generator = derive_generator(seed, "universes")
        population = model.population
        weights = population.weights
        samples = self._generator.choice(len(weights), n_universes, p=weights)
        # The sample θ_u of each universe.
        self._samples = replace(population, coefficients=population.coefficients[:, :, samples])
        start = Universe(self._cloud(population), population.log_weights, population)
        self.members: tuple[Universe, ...] = (start,) * n_universes
        self.notes: tuple[str, ...] = ()

    def label_probs(self, index: int) -> np.ndarray:
        """(U, C): p(· | x, θ_u) of a pool point in every universe."""
        contrasts = self._samples.contrasts(self._model.pool[index][None])[0]
        return softmax(contrasts.T @ contrast_basis(self._samples.n_classes).T)

    def content(self, index: int) -> list[bytes]:
        """Keys of a pool point's noise, one for each class: its features."""
        return class_keys(self._model.pool[index], self._samples.n_classes)

    def observe(self, index: int, labels: np.ndarray) -> None:
        """Condition universe u on label ``labels[u]`` of the pool point."""
        x = self._model.pool[index][None]

        def conditioned(member: Universe, label: int) -> Universe:
            assert member.population is not None
            old = member.population
            seed = int(self._generator.integers(2**32))
            new = condition_population(old, x, np.array([label], np.int32), seed)
            self.notes = tuple(dict.fromkeys((*self.notes, *new.diagnostics.problems)))
            cloud = member.cloud if new.coefficients is old.coefficients else self._cloud(new)
            return Universe(cloud, new.log_weights, new)

        self.members = branch(self.members, labels, conditioned)

    def _cloud(self, population: Population) -> Cloud:
        n_columns, n_contrasts, n_samples = population.coefficients.shape
        weights = population.coefficients.reshape(n_columns, -1)

        def predicted(X: np.ndarray) -> np.ndarray:
            """Predictive rows (n, A, K) of design rows (n, D+1)."""
            contrasts = (X.astype(np.float32) @ weights).reshape(-1, n_contrasts, n_samples)
            probs = class_probs(contrasts, n_contrasts + 1)
            return probs[:, 1:] if n_contrasts == 1 else probs

        pool = LazyPoints(self._model.pool, predicted)
        return Cloud(pool, to_device(predicted(self._model.target)), self._class_weights)


def branch(
    members: tuple[Any, ...], labels: np.ndarray, conditioned: Callable[[Any, int], Any]
) -> tuple[Any, ...]:
    """Condition every universe on its label; universes with identical labels stay one object.

    Before the first label all universes are one posterior, after one binary label there are two,
    after two labels four: each distinct universe is conditioned, moved and scored once.
    """
    by_parent_and_label: dict[tuple[int, int], Any] = {}
    children = []
    for member, label in zip(members, labels.tolist(), strict=True):
        key = (id(member), label)
        if key not in by_parent_and_label:
            by_parent_and_label[key] = conditioned(member, label)
        children.append(by_parent_and_label[key])
    return tuple(children)

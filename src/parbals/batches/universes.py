"""Universes: copies of the posterior, each of which has seen its own labels for the partial batch.

Universe u owns one complete labelling of the pool, drawn jointly: one parameter vector θ_u from the
posterior, then every label from p(·|x, θ_u). Labels are read off lazily, when a point enters the batch,
from noise keyed by the point itself, so the labelling is fixed from the start and costs nothing.

Two kinds share one interface. ``ReweightedUniverses`` know predictive samples alone: conditioning on a
label multiplies the weights of the K samples. ``ParticleUniverses`` have the model: when the effective
sample size of a universe falls below 60 %, its particles are resampled and moved under the posterior
that includes its pseudo-labels.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from parbals.batches.clouds import Cloud, held_cloud, hold_rows, whitened_rows
from parbals.batches.problem import ModelView
from parbals.numerics import bucket, effective_sample_size, normalise_log_weights
from parbals.posterior.hmc import Target, make_target, move_population
from parbals.posterior.likelihood import contrast_basis, softmax
from parbals.posterior.smc import MOVE_BELOW, jax_key, log_likelihoods, systematic_resample
from parbals.randomness import content_gumbels, derive_generator
from parbals.scores.rows import pool_block, target_rows

__all__ = ["ParticleUniverses", "PseudoLabels", "ReweightedUniverses", "Universe", "Universes"]

_HOLD_BYTES = 384 * 2**20
"""Rows of all universes are held if they fit in this; beyond, they are recomputed block by block."""
_MOVED_ENOUGH = 0.25
_MOST_MOVES = 6


@dataclass(frozen=True)
class Universe:
    """One universe: a cloud of samples and their unnormalised log weights (K,)."""

    cloud: Cloud
    log_weights: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        return normalise_log_weights(self.log_weights).astype(self.cloud.target.dtype)


class Universes(Protocol):
    """State of the partial batch in every universe."""

    members: tuple[Universe, ...]

    def label_probs(self, index: int) -> np.ndarray:
        """(U, C): p(· | x, θ_u) of a pool point in every universe."""

    def content(self, index: int) -> list[bytes]:
        """What identifies a pool point, for each class: the key of its noise."""

    def observe(self, index: int, labels: np.ndarray) -> None:
        """Condition universe u on label ``labels[u]`` of the pool point."""


class PseudoLabels:
    """Labels of the partial batch, (U,) a point: drawn from θ_u, or the most probable one (MAP)."""

    def __init__(self, seed: int, most_probable: np.ndarray | None = None) -> None:
        self._seed = seed
        self._most_probable = most_probable
        self._seen: dict[tuple[bytes, ...], int] = {}

    def of(self, index: int, universes: Universes) -> np.ndarray:
        if self._most_probable is not None:
            return np.array([self._most_probable[index].argmax()])
        content = universes.content(index)
        key = tuple(sorted(content))
        twin = self._seen.get(key, 0)
        self._seen[key] = twin + 1
        probs = universes.label_probs(index)
        gumbels = content_gumbels(self._seed, content, twin, len(probs))
        with np.errstate(divide="ignore"):
            return np.argmax(np.log(probs) + gumbels.T, axis=1)


class ReweightedUniverses:
    """Universes over predictive samples alone: (N, K, C), (M, K, C), weights (K,)."""

    def __init__(
        self, pool_probs: np.ndarray, target_probs: np.ndarray, weights: np.ndarray, n_universes: int, seed: int
    ) -> None:
        self._probs = pool_probs
        with np.errstate(divide="ignore"):
            start = Universe(held_cloud(pool_probs, target_probs), np.log(weights))
        self.members: tuple[Universe, ...] = (start,) * n_universes
        self._drawn = derive_generator(seed, "universes").choice(len(weights), n_universes, p=weights)

    def label_probs(self, index: int) -> np.ndarray:
        return self._probs[index, self._drawn].astype(np.float64)

    def content(self, index: int) -> list[bytes]:
        return [np.ascontiguousarray(column).tobytes() for column in self._probs[index].T]

    def observe(self, index: int, labels: np.ndarray) -> None:
        with np.errstate(divide="ignore"):
            log_probs = np.log(self._probs[index].astype(np.float64))
        self.members = tuple(
            Universe(u.cloud, u.log_weights + log_probs[:, label]) for u, label in zip(self.members, labels, strict=True)
        )


class ParticleUniverses:
    """Universes of a particle model, whose particles move when reweighting alone would wear thin."""

    def __init__(self, model: ModelView, n_universes: int, n_more: int, seed: int) -> None:
        """``n_more`` points will be observed at most; rows are padded for them once."""
        population = model.population
        reference = population.reference
        self._generator = derive_generator(seed, "universes")
        self._n_classes = population.n_classes
        self._pool = model.pool
        self._reference = reference
        self._X = population.X
        self._rows = bucket(len(population.X) + n_more)
        self._labels = np.repeat(population.labels[None], n_universes, axis=0)
        self._steps = np.full(n_universes, population.step_size)
        n_points, n_targets = len(model.pool), len(model.target)
        n_free = 1 if self._n_classes == 2 else self._n_classes
        block = pool_block(n_targets, n_free)
        self._points = whitened_rows(model.pool @ reference.factor, model.pool @ reference.mean, block)
        self._target_design = model.target @ reference.factor
        self._target_offset = model.target @ reference.mean
        self._hold = 4 * n_universes * n_points * n_free * population.n_samples <= _HOLD_BYTES
        start = Universe(self._cloud(population.whitened), population.log_weights)
        self.members: tuple[Universe, ...] = (start,) * n_universes
        self._particles = [population.whitened] * n_universes
        drawn = self._generator.choice(population.n_samples, n_universes, p=population.weights)
        self._drawn = population.whitened[:, :, drawn]

    def label_probs(self, index: int) -> np.ndarray:
        contrasts = self._contrasts(self._pool[index], self._drawn)
        return softmax(contrasts.T @ contrast_basis(self._n_classes).T)

    def content(self, index: int) -> list[bytes]:
        row = self._pool[index].tobytes()
        return [row + bytes([c % 256, c // 256]) for c in range(self._n_classes)]

    def observe(self, index: int, labels: np.ndarray) -> None:
        x = self._pool[index]
        self._X = np.concatenate([self._X, x[None]])
        self._labels = np.concatenate([self._labels, labels[:, None].astype(np.int32)], axis=1)
        target: Target | None = None
        members = []
        for u, member in enumerate(self.members):
            contrasts = self._contrasts(x, self._particles[u])
            gained = log_likelihoods(contrasts[None], labels[u : u + 1], self._n_classes)[0]
            updated = Universe(member.cloud, member.log_weights + gained)
            weights = normalise_log_weights(updated.log_weights)
            if effective_sample_size(weights) < MOVE_BELOW * len(weights):
                target = target or make_target(self._reference, self._X, self._labels[u], self._rows)
                updated = self._move(u, weights, target)
            members.append(updated)
        self.members = tuple(members)

    def _move(self, u: int, weights: np.ndarray, target: Target) -> Universe:
        labels = np.zeros(self._rows, np.int32)
        labels[: len(self._X)] = self._labels[u]
        ancestors = systematic_resample(self._generator, weights, len(weights))
        result = move_population(
            jax_key(self._generator),
            np.ascontiguousarray(self._particles[u][:, :, ancestors]),
            target._replace(labels=labels),
            np.float32(self._steps[u]),
            _MOST_MOVES,
            np.float32(_MOVED_ENOUGH),
            n_classes=self._n_classes,
        )
        self._steps[u] = float(result.step_size)
        self._particles[u] = np.asarray(result.whitened)
        return Universe(self._cloud(self._particles[u]), np.zeros(len(weights)))

    def _contrasts(self, x: np.ndarray, whitened: np.ndarray) -> np.ndarray:
        """Contrast logits (J, K) of one design row under particles (d, J, K)."""
        return (x @ self._reference.mean)[:, None] + np.tensordot(x @ self._reference.factor, whitened, axes=1)

    def _cloud(self, whitened: np.ndarray) -> Cloud:
        contrasts = self._target_offset[:, :, None] + np.tensordot(self._target_design, whitened, axes=1)
        probs = softmax(np.einsum("cj,mjk->mkc", contrast_basis(self._n_classes), contrasts))
        target = target_rows(probs.astype(np.float32))
        if self._hold:
            points = hold_rows(self._points, whitened, n_classes=self._n_classes)
            return Cloud(points, None, target, len(probs), self._n_classes)
        return Cloud(self._points, whitened, target, len(probs), self._n_classes)

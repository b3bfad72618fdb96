"""Universes: copies of the posterior, each of which has seen its own labels for the partial batch.

Universe u owns one complete labelling of the pool, drawn jointly: one parameter vector θ_u from the
posterior, then every label from p(·|x, θ_u). Labels are read off lazily, when a point enters the
batch, from noise keyed by the point itself, so the labelling is fixed from the start and costs
nothing.

Two kinds share one interface. ``ReweightedUniverses`` know predictive samples alone: conditioning
on a label multiplies the weights of the K samples. ``ParticleUniverses`` have the model: when the
effective sample size of a universe falls below half of K, its particles are resampled and moved
under the posterior that includes its pseudo-labels, in the space of the labelled and pseudo-labelled
rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import jax
import numpy as np
from jax import Array

from parbals.arrays import bucket, effective_sample_size, normalise_log_weights
from parbals.posterior.diagnostics import Diagnostics
from parbals.posterior.hmc import (
    MoveResult,
    WhitenedPosterior,
    move_population,
    whitened_posterior,
    with_labels,
    within,
)
from parbals.posterior.likelihood import contrast_basis, softmax
from parbals.posterior.row_space import row_space
from parbals.posterior.smc import (
    SHORT_SHARE,
    Population,
    Refusals,
    condition,
    jax_key,
    systematic_resample,
)
from parbals.randomness import content_gumbels, derive_generator
from parbals.scores.epig import TargetStats
from parbals.scores.losses import Loss
from parbals.scores.rows import padded_targets, pool_block
from parbals.strategies.clouds import Cloud, block_of_rows, held_cloud, hold_rows, whitened_rows
from parbals.strategies.problem import ModelView

__all__ = ["ParticleUniverses", "PseudoLabels", "ReweightedUniverses", "Universe", "Universes"]

_HOLD_BYTES = 384 * 2**20
"""Rows of all universes are held if they fit in this; else they are computed block by block."""
_MOVED_ENOUGH = 0.25
_MOST_MOVES = 6
_STUCK = 0.5
"""A universe is reported when its moves leave more than this of the start, or of K less than this."""


@dataclass(frozen=True)
class Universe:
    """One universe: a cloud of samples and their unnormalised log weights (K,)."""

    cloud: Cloud
    log_weights: np.ndarray

    @cached_property
    def weights(self) -> np.ndarray:
        """(K,) normalised, in the precision of the cloud."""
        return normalise_log_weights(self.log_weights).astype(self.cloud.target.dtype)

    @property
    def statistics(self) -> TargetStats:
        """Kept for two classes; for more they are as large as the target rows, and cheap."""
        return self._kept if self.cloud.n_classes == 2 else self.cloud.statistics(self.weights)

    @cached_property
    def _kept(self) -> TargetStats:
        return self.cloud.statistics(self.weights)

    @cached_property
    def effective_sample_size(self) -> float:
        return float(effective_sample_size(self.weights.astype(np.float64)))

    def score_pool(self, loss: Loss) -> Array:
        return self.cloud.score_pool(self.weights, self.statistics, loss)

    def bound_pool(self) -> Array:
        return self.cloud.bound_pool(self.weights, self.statistics)

    def score_points(self, indices: np.ndarray, loss: Loss) -> Array:
        return self.cloud.score_points(indices, self.weights, self.statistics, loss)


class Labellings(Protocol):
    """One complete labelling of the pool for each universe, read off point by point."""

    def label_probs(self, index: int) -> np.ndarray:
        """(U, C): p(· | x, θ_u) of a pool point in every universe."""

    def content(self, index: int) -> list[bytes]:
        """What identifies a pool point, for each class: the key of its noise."""


class Universes(Labellings, Protocol):
    """State of the partial batch in every universe."""

    members: tuple[Universe, ...]

    def observe(self, index: int, labels: np.ndarray) -> None:
        """Condition universe u on label ``labels[u]`` of the pool point."""

    def notes(self) -> tuple[str, ...]:
        """Sentences about universes whose samples cannot be relied on."""


class PseudoLabels:
    """Labels of the partial batch, (U,) a point: drawn from θ_u, or the most probable one (MAP)."""

    def __init__(self, seed: int, most_probable: np.ndarray | None = None) -> None:
        self._seed = seed
        self._most_probable = most_probable
        self._seen: dict[tuple[bytes, ...], int] = {}

    def of(self, index: int, universes: Labellings) -> np.ndarray:
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
        self,
        pool_probs: np.ndarray,
        target_probs: np.ndarray,
        weights: np.ndarray,
        n_universes: int,
        seed: int,
    ) -> None:
        self._probs = pool_probs
        with np.errstate(divide="ignore"):
            start = Universe(held_cloud(pool_probs, target_probs), np.log(weights))
        self.members: tuple[Universe, ...] = (start,) * n_universes
        self._drawn = derive_generator(seed, "universes").choice(
            len(weights), n_universes, p=weights
        )

    def label_probs(self, index: int) -> np.ndarray:
        return self._probs[index, self._drawn].astype(np.float64)

    def content(self, index: int) -> list[bytes]:
        return [np.ascontiguousarray(column).tobytes() for column in self._probs[index].T]

    def observe(self, index: int, labels: np.ndarray) -> None:
        with np.errstate(divide="ignore"):
            log_probs = np.log(self._probs[index].astype(np.float64))

        def conditioned(member: Universe, label: int) -> Universe:
            return Universe(member.cloud, member.log_weights + log_probs[:, label])

        self.members = _branch(self.members, labels, conditioned)

    def notes(self) -> tuple[str, ...]:
        """None: what reweighting wears off shows in the effective sample size."""
        return ()


@dataclass(frozen=True)
class ParticleUniverse(Universe):
    """A universe that can move: its cloud and weights are those of a population."""

    population: Population

    @property
    def effective_sample_size(self) -> float:  # type: ignore[override]
        return self.population.effective_sample_size


class ParticleUniverses:
    """Universes of a particle model, whose particles move when reweighting alone would wear thin.

    They keep the reference of the model, so that the pool is whitened once for all of them.
    """

    def __init__(self, model: ModelView, n_universes: int, n_more: int, seed: int) -> None:
        """``n_more`` points will be observed at most; rows are padded for them once."""
        population = model.population
        reference, self._n_classes = population.reference, population.n_classes
        self._generator = derive_generator(seed, "universes")
        self._pool = model.pool
        self._n_known = len(population.X)
        self._posterior = whitened_posterior(
            reference, population.X, population.labels, bucket(self._n_known + n_more)
        )
        n_free = 1 if self._n_classes == 2 else self._n_classes
        n_targets = self._n_targets = len(model.target)
        block = pool_block(len(model.pool), n_targets, n_free)
        self._points = whitened_rows(
            reference.design(model.pool), model.pool @ reference.mean, block
        )
        self._target = whitened_rows(
            reference.design(model.target),
            model.target @ reference.mean,
            padded_targets(n_targets, n_free),
        )
        held = 4 * n_universes * len(model.pool) * n_free * population.n_samples
        self._hold = held <= _HOLD_BYTES
        drawn = self._generator.choice(population.n_samples, n_universes, p=population.weights)
        self._drawn = replace(population, whitened=population.whitened[:, :, drawn])
        start = ParticleUniverse(
            self._cloud(population.whitened), population.log_weights, population
        )
        self.members: tuple[Universe, ...] = (start,) * n_universes
        self._n_moved = 0
        self._stuck: list[Diagnostics] = []

    def label_probs(self, index: int) -> np.ndarray:
        contrasts = self._drawn.contrasts(self._pool[index][None])[0]
        return softmax(contrasts.T @ contrast_basis(self._n_classes).T)

    def content(self, index: int) -> list[bytes]:
        row = self._pool[index].tobytes()
        return [row + c.to_bytes(4, "little") for c in range(self._n_classes)]

    def observe(self, index: int, labels: np.ndarray) -> None:
        x = self._pool[index][None]

        def conditioned(member: ParticleUniverse, label: int) -> ParticleUniverse:
            old = member.population
            new = condition(old, x, np.array([label], np.int32), self._moved)
            cloud = member.cloud if new.whitened is old.whitened else self._cloud(new.whitened)
            return ParticleUniverse(cloud, new.log_weights, new)

        self.members = _branch(self.members, labels, conditioned)

    def notes(self) -> tuple[str, ...]:
        """One sentence if the particles of some universe hardly moved."""
        if not self._stuck:
            return ()
        worst = max(self._stuck, key=lambda d: d.correlation)
        return (
            f"In {len(self._stuck)} of {self._n_moved} moves of a universe the particles hardly "
            f"moved (a correlation of {worst.correlation:.2f} with their start is left, the "
            f"effective sample size is {worst.effective_sample_size:.0f} of {worst.n_samples}), so "
            "the later choices rest on few samples: standardise the features, use a smaller "
            "prior_scale, or ask for a smaller batch.",
        )

    def _moved(self, worn: Population) -> Population:
        """Resampled, and moved a few times under the posterior that includes the pseudo-labels."""
        ancestors = systematic_resample(self._generator, worn.weights, worn.n_samples)
        known = self._n_known
        posterior = with_labels(
            self._posterior, worn.reference, known, worn.X[known:], worn.labels[known:]
        )
        rows = np.asarray(posterior.design, np.float64)
        space = row_space(rows, len(rows))
        posterior = within(posterior, space)
        z = space.coordinates(worn.whitened[:, :, ancestors]).astype(np.float32)
        z = np.ascontiguousarray(z)
        result = self._move(z, posterior, worn.step_size, worn.walls)
        refusals = Refusals(worn.n_samples)
        walls = refusals.meet_walls(result) or worn.walls
        if walls and not worn.walls:
            result = self._move(result.whitened, posterior, float(result.step_size), walls)
            refusals.meet_walls(result)
        # As in a fit, particles keep their own coordinates across the rows, which no label has seen.
        moved = replace(
            worn,
            whitened=space.replace(worn.whitened, np.asarray(result.whitened)).astype(np.float32),
            log_weights=np.zeros(worn.n_samples),
            step_size=float(result.step_size),
            walls=walls,
            origins=_origins(worn, ancestors, refusals.n_accepted),
        )
        return replace(moved, diagnostics=self._examined(moved, result))

    def _move(
        self, z: Any, posterior: WhitenedPosterior, step_size: float, walls: bool
    ) -> MoveResult:
        return move_population(
            jax_key(self._generator),
            z,
            posterior,
            np.float32(step_size),
            _MOST_MOVES,
            np.float32(0.0 if walls else _MOVED_ENOUGH),
            n_classes=self._n_classes,
            short_share=SHORT_SHARE if walls else 0.0,
        )

    def _examined(self, moved: Population, result: MoveResult) -> Diagnostics:
        """What the moves were like; those that were in vain are remembered for the notes."""
        diagnostics = replace(
            moved.diagnostics,
            effective_sample_size=moved.effective_sample_size,
            acceptance=float(result.acceptance),
            correlation=float(result.correlation),
            drift=float("nan"),
            n_moves=int(result.n_moves),
            n_gradients=int(result.n_gradients),
            step_size=moved.step_size,
            n_reweighted=0,
        )
        self._n_moved += 1
        worth = diagnostics.effective_sample_size / moved.n_samples
        if diagnostics.correlation > _STUCK or worth < _STUCK:
            self._stuck.append(diagnostics)
        return diagnostics

    def _cloud(self, whitened: np.ndarray) -> Cloud:
        particles = jax.numpy.asarray(whitened)
        target = block_of_rows(self._target, particles, n_classes=self._n_classes)
        if self._hold:
            points = hold_rows(self._points, particles, n_classes=self._n_classes)
            return Cloud(points, None, target, self._n_targets, self._n_classes)
        return Cloud(self._points, particles, target, self._n_targets, self._n_classes)


def _origins(worn: Population, ancestors: np.ndarray, n_accepted: np.ndarray) -> np.ndarray:
    """(K,) numbers that particles share which descend from one place and were never moved."""
    own = np.arange(worn.n_samples)
    places = own if worn.origins is None else worn.origins
    placed = np.where(n_accepted == 0, places[ancestors], worn.n_samples + own)
    return np.unique(placed, return_inverse=True)[1]


def _branch(
    members: tuple[Any, ...], labels: np.ndarray, conditioned: Callable[[Any, int], Any]
) -> tuple[Any, ...]:
    """Condition every universe on its label; those that have seen the same labels stay one object.

    Before the first label all universes are the same posterior, after one two-class label they are
    two, after two four: what is the same is conditioned, moved and scored once.
    """
    made: dict[tuple[int, int], Any] = {}
    pairs = list(zip(members, labels.tolist(), strict=True))
    for member, label in pairs:
        if (id(member), label) not in made:
            made[id(member), label] = conditioned(member, label)
    return tuple(made[id(member), label] for member, label in pairs)

"""Universes of a particle model, whose samples move when reweighting alone would wear thin.

When the effective sample size of a universe falls below half of K, its particles are resampled and
moved a few times under the posterior that includes its pseudo-labels: in the space of the labelled
and pseudo-labelled rows, with the rules of a fit for particles that stand at a wall. What the moves
were like stays in the diagnostics of its population.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parbals.arrays import bucket, exact_products
from parbals.posterior.closed.channels import row_space
from parbals.posterior.diagnostics import Diagnostics
from parbals.posterior.particles.hmc import (
    MoveResult,
    WhitenedPosterior,
    move_population,
    whitened_posterior,
    with_labels,
    within,
)
from parbals.posterior.particles.population import Population
from parbals.posterior.particles.smc import (
    SHORT_SHARE,
    Refusals,
    condition,
    jax_key,
    systematic_resample,
)
from parbals.posterior.predictive import class_probs, contrast_basis, softmax
from parbals.randomness import derive_generator
from parbals.scores.losses import Stakes
from parbals.scores.rows import placed
from parbals.shapes import Array, Float
from parbals.strategies.problem import ModelView
from parbals.strategies.universes.samples import Cloud, Universe, branch

__all__ = ["ParticleRows", "ParticleUniverse", "ParticleUniverses"]

_HOLD_BYTES = 384 * 2**20
"""Rows of all universes are held if they fit in this; else they are computed block by block."""
_MOVED_ENOUGH = 0.25
_MOST_MOVES = 6
_STUCK = 0.5
"""Moves that leave more of the start, or a smaller share of K, than this were in vain."""


@dataclass(frozen=True)
class ParticleRows:
    """Predictive rows that are computed from particles, block by block, whenever they are needed.

    With whitened design rows A = X L and offsets X mean, contrasts of the logits are offset + A z.
    """

    design: Float[Array, "N d"]
    offset: Float[Array, "N J"]
    particles: Float[Array, "d J K"]

    @property
    def dtype(self) -> np.dtype:
        return self.particles.dtype

    def __len__(self) -> int:
        return len(self.design)

    def __getitem__(self, rows: Any) -> Float[Array, "n A K"]:
        xp = self.particles.__array_namespace__()
        d, n_contrasts, n_samples = self.particles.shape
        with exact_products(xp):
            contrasts = self.design[rows] @ self.particles.reshape(d, -1)
        contrasts = contrasts.reshape(-1, n_contrasts, n_samples) + self.offset[rows][:, :, None]
        probs = class_probs(contrasts, n_contrasts + 1, xp)
        return probs[:, 1:] if n_contrasts == 1 else probs


@dataclass(frozen=True)
class ParticleUniverse(Universe):
    """A universe that can move: its cloud and weights are those of a population."""

    population: Population

    @property
    def effective_sample_size(self) -> float:
        return self.population.effective_sample_size


class ParticleUniverses:
    """They keep the reference of the model, so that the pool is whitened once for all of them."""

    def __init__(
        self,
        model: ModelView,
        n_universes: int,
        n_more: int,
        seed: int,
        stakes: Stakes | None = None,
    ) -> None:
        """``n_more`` points will be observed at most; rows are padded for them once."""
        population, self._stakes = model.population, stakes
        reference, self._n_classes = population.reference, population.n_classes
        self._generator = derive_generator(seed, "universes")
        self._pool = model.pool
        self._n_known = len(population.X)
        self._posterior = whitened_posterior(
            reference, population.X, population.labels, bucket(self._n_known + n_more)
        )
        self._seen = [
            (
                placed(reference.design(rows).astype(np.float32)),
                placed((rows @ reference.mean).astype(np.float32)),
            )
            for rows in (model.pool, model.target)
        ]
        n_rows = 1 if self._n_classes == 2 else self._n_classes
        held = 4 * n_universes * len(model.pool) * n_rows * population.n_samples
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

        self.members = branch(self.members, labels, conditioned)

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
        z = np.ascontiguousarray(space.coordinates(worn.whitened[:, :, ancestors]), np.float32)
        result = self._move(z, posterior, worn.step_size, worn.walls)
        refusals = Refusals(worn.n_samples)
        walls = refusals.meet_walls(result) or worn.walls
        if walls and not worn.walls:
            result = self._move(result.whitened, posterior, float(result.step_size), walls)
            refusals.meet_walls(result)
        # As in a fit, what lies across the rows is not resampled: no label has seen it.
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
        pool, target = (ParticleRows(*seen, placed(whitened)) for seen in self._seen)
        return Cloud(pool[:] if self._hold else pool, target[:], self._stakes)


def _origins(worn: Population, ancestors: np.ndarray, n_accepted: np.ndarray) -> np.ndarray:
    """(K,) numbers that particles share which descend from one place and were never moved."""
    own = np.arange(worn.n_samples)
    places = own if worn.origins is None else worn.origins
    placed = np.where(n_accepted == 0, places[ancestors], worn.n_samples + own)
    return np.unique(placed, return_inverse=True)[1]

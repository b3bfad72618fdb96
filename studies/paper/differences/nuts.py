"""The authors' configuration by NUTS: all seeds and universes in one program.

    python studies paper.differences.nuts --pack FOLDER --data ~/data  # binary rows of both tables
    python studies paper.differences.nuts --folder FOLDER --only airline --out FOLDER2

Every pseudo-label of ParBaLS is learnt by sampling the whole posterior again (the departures
"pseudo-labels" and "refit"): 1,720 fits a run. Here S seeds go in step, and the S × U fits of a
greedy step, four chains each, are one compiled program (`lib.many_nuts`). Chains are as short
as the paper's, 100 steps of warm-up and 100 draws, in coordinates whitened at the mode of the
labels that are told. Initial sets, candidates, targets and the draws that give pseudo-labels are
those of `parbals bench run`. Each of --strategies goes in step by itself. Its records, one line of
`bench run` a seed, are written after the last round, or, with the rounds that there are, when
--seconds are over; another call goes on after the last whole round.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

BUDGET = "100+9x20"
DEPARTURES = "whitened,whole-pool,badge,galaxy,power-epig,bits,pseudo-labels,map,refit"
STRATEGIES = ("random", "confidence", "epig", "parbals-epig", "parbals-map-epig")
N_DRAWS = 100
TABLES = ("airline", "credit-card")


class Table(NamedTuple):
    """Binary rows of pool, target source and test, with labels and the digest of the data."""

    X_pool: np.ndarray
    y_pool: np.ndarray
    X_target_source: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    digest: str
    notes: list[str]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pack", type=Path, help="write the tables there, and nothing else")
    parser.add_argument("--data", type=Path, help="the datasets' folder")
    parser.add_argument("--folder", type=Path, help="what --pack has written")
    parser.add_argument("--only", default=TABLES[0], choices=TABLES)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--out", type=Path, help="folder of the records")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--universes", type=int, default=10)
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--budget", default=BUDGET)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no round after these")
    options = parser.parse_args()
    if options.pack:
        pack(options.pack, options.data)
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    ends_at = time.monotonic() + options.seconds
    for strategy in options.strategies.split(","):
        if time.monotonic() < ends_at:
            _AllSeeds(options, strategy, ends_at).run()
    return 0


def pack(folder: Path, data_folder: Path) -> None:
    """Write the rows of the tables, all of which are 0 or 1, as bits."""
    from parbals_bench.datasets.table import load_dataset
    from parbals_bench.run.single import data_digest

    folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        data = load_dataset(name, data_folder / name.replace("-", "_"))
        parts = {}
        for field in ("X_pool", "X_target_source", "X_test"):
            rows = getattr(data, field)
            if not np.isin(rows, (0.0, 1.0)).all():
                raise ValueError(f"{name}: {field} has other numbers than 0 and 1")
            parts[field] = np.packbits(rows.astype(bool), axis=1)
        np.savez_compressed(
            folder / f"{name}.npz",
            **parts,
            y_pool=np.asarray(data.y_pool, np.int8),
            y_test=np.asarray(data.y_test, np.int8),
            n_columns=data.X_pool.shape[1],
            digest=data_digest(data),
            notes=np.array(data.notes),
        )
        print(name, data.X_pool.shape, data.X_target_source.shape, data.X_test.shape)


def _unpack(file: Path) -> Table:
    with np.load(file) as stored:
        n_columns = int(stored["n_columns"])
        rows = {
            field: np.unpackbits(stored[field], axis=1, count=n_columns)
            for field in ("X_pool", "X_target_source", "X_test")
        }
        return Table(
            **rows,
            y_pool=stored["y_pool"].astype(np.int64),
            y_test=stored["y_test"].astype(np.int64),
            digest=str(stored["digest"]),
            notes=stored["notes"].tolist(),
        )


class _AllSeeds:
    """All seeds of one table and strategy, round by round."""

    def __init__(self, options: argparse.Namespace, strategy: str, ends_at: float) -> None:
        from parbals_bench.run.spec import Budget

        self.name = options.only
        self.strategy = strategy
        self.out = options.out
        self.ends_at = ends_at
        n_universes = {"parbals-epig": options.universes, "parbals-map-epig": 1}
        self.n_universes = n_universes.get(strategy, 0)
        self.n_candidates = options.candidates
        self.n_seeds = options.seeds
        self.budget = Budget.parse(options.budget)
        self.table = _unpack(options.folder / f"{self.name}.npz")
        self.state_file = self.out / f"{self.name}.{strategy}.state.json"
        self.n_rows = -(-self.budget.total // 16) * 16
        self.times: dict[str, list[float]] = {"fit": [], "predict": [], "select": []}
        self.chosen: list[list[list[int]]] = [[] for _ in range(self.n_seeds)]
        self.metrics: list[dict[str, list[float]]] = [{} for _ in range(self.n_seeds)]
        self.longest: dict[str, float] = {"leapfrog steps": 0.0, "trees cut": 0.0}
        if self.state_file.is_file():
            state = json.loads(self.state_file.read_text("utf-8"))
            self.chosen = state["chosen"]
            self.metrics = state["metrics"]
            self.times = state["times"]

    def run(self) -> None:
        import jax
        from parbals_bench.run.single import draw_initial

        jax.config.update("jax_enable_x64", True)
        n_pool = len(self.table.y_pool)
        self.initial = [
            draw_initial(seed, n_pool, self.budget.initial) for seed in range(self.n_seeds)
        ]
        for round_number in range(len(self.times["fit"]), self.budget.rounds + 1):
            if time.monotonic() > self.ends_at and round_number > 1:
                self.budget = replace(self.budget, rounds=round_number - 1)
                break
            self._round(round_number)
            state = {"chosen": self.chosen, "metrics": self.metrics, "times": self.times}
            self.state_file.write_text(json.dumps(state), "utf-8")
            took = {stage: round(values[-1], 1) for stage, values in self.times.items() if values}
            print(self.name, self.strategy, "round", round_number, took, self.longest, flush=True)
        self._write_records()

    def _round(self, round_number: int) -> None:
        """Fit and measure the models of all seeds, then choose their batches."""
        from parbals_bench.run.metrics import measure

        clock = time.perf_counter
        started_at = clock()
        training = [
            np.concatenate([self.initial[seed], *self.chosen[seed]]).astype(int)
            for seed in range(self.n_seeds)
        ]
        told = [[self.table.y_pool[rows]] for rows in training]
        weights = self._fit(training, told, round_number, 0)
        self.times["fit"].append(clock() - started_at)
        started_at = clock()
        for seed in range(self.n_seeds):
            probs = np.asarray(_mean_probs(self.table.X_test.astype(np.float32), weights[seed, 0]))
            for metric, value in measure(probs, self.table.y_test).items():
                self.metrics[seed].setdefault(metric, []).append(round(float(value), 7))
        self.times["predict"].append(clock() - started_at)
        if round_number == self.budget.rounds:
            return
        started_at = clock()
        candidates = [self._candidates(seed, round_number, training[seed]) for seed in self._seeds]
        if self.strategy in ("random", "confidence"):
            batches = [
                self._without_targets(seed, round_number, candidates[seed], weights[seed, 0])
                for seed in self._seeds
            ]
        else:
            batches = self._with_targets(round_number, training, candidates, weights)
        for seed, batch in enumerate(batches):
            self.chosen[seed].append(candidates[seed][batch].tolist())
        self.times["select"].append(clock() - started_at)

    @property
    def _seeds(self) -> range:
        return range(self.n_seeds)

    def _candidates(self, seed: int, round_number: int, training: np.ndarray) -> np.ndarray:
        from parbals_bench.run.authors import candidate_limit
        from parbals_bench.run.single import draw_candidates

        limit = candidate_limit(self.strategy, DEPARTURES, self.n_candidates)
        return draw_candidates(seed, round_number, len(self.table.y_pool), training, limit)

    def _without_targets(
        self, seed: int, round_number: int, candidates: np.ndarray, weights: np.ndarray
    ) -> list[int]:
        """Positions among the candidates, by a strategy that looks at no target."""
        from parbals.select import select_batch
        from parbals_bench.run.single import _derived_seed

        probs = np.full((len(candidates), 2), 0.5)
        if self.strategy == "confidence":
            X = self.table.X_pool[candidates].astype(np.float32)
            probs = np.asarray(_mean_probs(X, weights), np.float64)
        batch = select_batch(
            probs[:, None],
            None,
            self.budget.batch,
            self.strategy,
            random_state=_derived_seed(seed, "select", round_number),
        )
        return [int(index) for index in batch.indices]

    def _with_targets(
        self,
        round_number: int,
        training: list[np.ndarray],
        candidates: list[np.ndarray],
        weights: np.ndarray,
    ) -> list[list[int]]:
        """Positions among each seed's candidates, by EPIG."""
        from parbals_bench.run.single import _derived_seed, draw_targets

        n_source = len(self.table.X_target_source)
        targets = [draw_targets(seed, round_number, n_source, 1_000) for seed in self._seeds]
        X_candidates = np.stack([self.table.X_pool[rows] for rows in candidates])
        X_targets = np.stack([self.table.X_target_source[rows] for rows in targets])
        if not self.n_universes:
            scores = np.asarray(_mean_epig(X_candidates, X_targets, weights))
            orders = np.argsort(-scores, axis=1, kind="stable")
            return [order[: self.budget.batch].tolist() for order in orders]
        is_map = self.strategy == "parbals-map-epig"
        guesses = np.zeros((self.n_seeds, self.n_universes, X_candidates.shape[1]), np.int64)
        if not is_map:
            for seed in self._seeds:
                X = X_candidates[seed].astype(np.float32)
                generator_seed = _derived_seed(seed, "select", round_number)
                guesses[seed] = _pseudo_labels(
                    X, weights[seed, 0], generator_seed, self.n_universes
                )
        batches: list[list[int]] = [[] for _ in self._seeds]
        for step in range(self.budget.batch):
            scores = np.array(_mean_epig(X_candidates, X_targets, weights))
            for seed, batch in enumerate(batches):
                scores[seed, batch] = -np.inf
                best = int(scores[seed].argmax())
                batch.append(best)
                if is_map:
                    x = X_candidates[seed, [best]].astype(np.float32)
                    probs = np.asarray(_mean_probs(x, weights[seed, 0]))
                    guesses[seed, 0, best] = int(probs[0].argmax())
            if step + 1 == self.budget.batch:
                break
            rows = [
                np.concatenate([training[seed], candidates[seed][batch]])
                for seed, batch in enumerate(batches)
            ]
            labels = [
                [
                    np.concatenate([self.table.y_pool[training[seed]], of_universe[batch]])
                    for of_universe in guesses[seed]
                ]
                for seed, batch in enumerate(batches)
            ]
            weights = self._fit(rows, labels, round_number, step + 1)
        return batches

    def _fit(
        self, rows: list[np.ndarray], labels: list[list[np.ndarray]], *path: int
    ) -> np.ndarray:
        """Draw weights (S, U, D+1, K) for the rows of each seed and the labels of each universe."""
        import jax
        from lib.many_nuts import draw_many, whitening

        n_columns = self.table.X_pool.shape[1]
        X = np.zeros((self.n_seeds, self.n_rows, n_columns + 1))
        signs = np.zeros((self.n_seeds, len(labels[0]), self.n_rows))
        told = np.zeros((self.n_seeds, self.n_rows))
        for seed, positions in enumerate(rows):
            X[seed, : len(positions), :-1] = self.table.X_pool[positions]
            X[seed, : len(positions), -1] = 1.0
            signs[seed, :, : len(positions)] = 2.0 * np.array(labels[seed]) - 1.0
            n_told = self.budget.initial + self.budget.batch * path[0]
            told[seed, :n_told] = signs[seed, 0, :n_told]
        mode, factor = whitening(X, told)
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), path[0]), path[1])
        weights, n_steps, share_cut = draw_many(key, X, signs, mode, factor, N_DRAWS)
        for name, value in (("leapfrog steps", n_steps), ("trees cut", share_cut)):
            self.longest[name] = max(self.longest[name], float(value))
        return np.asarray(weights)

    def _write_records(self) -> None:
        from parbals_bench.run.records import RunRecord, write_line
        from parbals_bench.run.single import _versions
        from parbals_bench.run.spec import Run, Settings

        settings = Settings(inference="nuts", departures=DEPARTURES)
        lines = []
        for seed in range(self.n_seeds):
            times = {stage: np.round(x, 4).tolist() for stage, x in self.times.items()}
            record = RunRecord(
                run=Run(self.name, self.budget, self.strategy, seed, settings=settings),
                metrics={name: tuple(values) for name, values in self.metrics[seed].items()},
                initial=tuple(self.initial[seed].tolist()),
                chosen=tuple(map(tuple, self.chosen[seed][: self.budget.rounds])),
                seconds={stage: tuple(values) for stage, values in times.items()},
                versions=_versions(),
                data=self.table.digest,
                inference=("nuts",) * (self.budget.rounds + 1),
                notes=(
                    *self.table.notes,
                    f"{self.n_seeds} seeds in step, chains of 100 + {N_DRAWS}; seconds are those "
                    "of all seeds together",
                ),
            )
            lines.append(write_line(record))
        file = self.out / f"{self.name}.{self.strategy}.jsonl"
        file.write_text("\n".join(lines) + "\n", "utf-8")


def _pseudo_labels(X: np.ndarray, weights: np.ndarray, seed: int, n_universes: int) -> np.ndarray:
    """The likeliest labels (U, N) under single draws, as in `bench run`."""
    from parbals.randomness import derive_generator

    generator = derive_generator(seed, "authors")
    draws = generator.choice(weights.shape[1], n_universes, replace=False)
    return (X @ weights[:-1, draws] + weights[-1, draws] > 0.0).T.astype(np.int64)


def _jit(function: Any = None, **options: Any) -> Any:
    """Compile at the first call, so that --help needs no JAX."""
    compiled: list[Any] = []

    def call(*arguments: Any) -> Any:
        import jax

        if not compiled:
            compiled.append(jax.jit(function, **options))
        return compiled[0](*arguments)

    return call


def _positive(X: Any, weights: Any) -> Any:
    """σ(√2 v·x): probabilities (N, K) of the second class, float32 products in full precision."""
    import jax
    import jax.numpy as jnp

    logits = jnp.matmul(X.astype(jnp.float32), weights[:-1], precision="highest") + weights[-1]
    return jax.nn.sigmoid(np.float32(np.sqrt(2.0)) * logits)


@_jit
def _mean_probs(X: Any, weights: Any) -> Any:
    import jax.numpy as jnp

    positive = _positive(X, weights).mean(axis=1)
    return jnp.stack([1.0 - positive, positive], axis=1)


def _epig(X: Any, X_targets: Any, weights: Any) -> Any:
    """EPIG (N,) of two classes: Σ_ab P_a P_b g(c_ab / (P_a P_b)), c = ± the covariance."""
    import jax.numpy as jnp

    p = _positive(X, weights)
    q = _positive(X_targets, weights)
    p_mean = p.mean(axis=1)
    q_mean = q.mean(axis=1)
    centred_q = (q - q_mean[:, None]) / q.shape[1]
    covariance = jnp.matmul(p - p_mean[:, None], centred_q.T, precision="highest")
    total = jnp.zeros_like(covariance)
    for sign_p, P in ((1.0, p_mean), (-1.0, 1.0 - p_mean)):
        for sign_q, Q in ((1.0, q_mean), (-1.0, 1.0 - q_mean)):
            product = jnp.maximum(P[:, None] * Q[None], 1e-12)
            t = jnp.maximum(np.float32(sign_p * sign_q) * covariance / product, -1.0 + 1e-6)
            total += product * ((1.0 + t) * jnp.log1p(t) - t)
    return total.mean(axis=1)


@_jit
def _mean_epig(X: Any, X_targets: Any, weights: Any) -> Any:
    """Scores (S, N): the mean over universes of EPIG, for weights (S, U, d, K)."""
    import jax

    def of_seed(arguments: Any) -> Any:
        rows, target_rows, universes = arguments
        return jax.lax.map(partial(_epig, rows, target_rows), universes).mean(axis=0)

    return jax.lax.map(of_seed, (X, X_targets, weights))


if __name__ == "__main__":
    sys.exit(main())

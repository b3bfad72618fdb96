"""ParBaLS EPIG by NUTS in the authors' configuration: all seeds and universes in one program.

    python studies paper.differences.nuts --pack FOLDER --data ~/data  # binary rows of both tables
    python studies paper.differences.nuts --folder FOLDER --only airline --out FOLDER2

Every pseudo-label is learnt by sampling the whole posterior again (the departures "pseudo-labels"
and "refit"): 1,720 fits a run. Here S seeds go in step, and the S × U fits of a greedy step, four
chains each, are one compiled program. Chains are as short as the paper's, 100 steps of warm-up and
100 draws, in coordinates whitened at the mode. Initial sets, candidates, targets and the draws that
give pseudo-labels are those of `parbals bench run`. The records, one line of `bench run` a seed,
are written after the last round, or, with the rounds that there are, when --seconds are over;
another call goes on after the last whole round.
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
N_SAMPLES = 400
N_CHAINS = 4
N_WARM_UP = 100
N_NEWTON = 20
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
    return _Lockstep(options).run()


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


class _Lockstep:
    """All seeds of one table, round by round."""

    def __init__(self, options: argparse.Namespace) -> None:
        from parbals_bench.run.spec import Budget

        self.name = options.only
        self.out = options.out
        self.seconds = options.seconds
        self.n_universes = options.universes
        self.n_candidates = options.candidates
        self.n_seeds = options.seeds
        self.budget = Budget.parse(options.budget)
        self.table = _unpack(options.folder / f"{self.name}.npz")
        self.state_file = self.out / f"{self.name}.state.json"
        self.n_rows = -(-self.budget.total // 16) * 16
        self.times: dict[str, list[float]] = {"fit": [], "predict": [], "select": []}
        self.chosen: list[list[list[int]]] = [[] for _ in range(self.n_seeds)]
        self.metrics: list[dict[str, list[float]]] = [{} for _ in range(self.n_seeds)]
        if self.state_file.is_file():
            state = json.loads(self.state_file.read_text("utf-8"))
            self.chosen = state["chosen"]
            self.metrics = state["metrics"]
            self.times = state["times"]

    def run(self) -> int:
        import jax
        from parbals_bench.run.single import draw_initial

        jax.config.update("jax_enable_x64", True)
        started_at = time.monotonic()
        n_pool = len(self.table.y_pool)
        self.initial = [
            draw_initial(seed, n_pool, self.budget.initial) for seed in range(self.n_seeds)
        ]
        for round_number in range(len(self.chosen[0]), self.budget.rounds + 1):
            is_over = time.monotonic() - started_at > self.seconds
            if is_over and round_number > 1:
                self.budget = replace(self.budget, rounds=round_number - 1)
                break
            self._round(round_number)
            state = {"chosen": self.chosen, "metrics": self.metrics, "times": self.times}
            self.state_file.write_text(json.dumps(state), "utf-8")
            took = {stage: round(values[-1], 1) for stage, values in self.times.items() if values}
            print(self.name, "round", round_number, took, flush=True)
        self._write_records()
        return 0

    def _round(self, round_number: int) -> None:
        """Fit and measure the models of all seeds, then choose their batches."""
        from parbals_bench.run.metrics import measure
        from parbals_bench.run.single import _derived_seed, draw_candidates, draw_targets

        clock = time.perf_counter
        started_at = clock()
        training = [
            np.concatenate([self.initial[seed], *self.chosen[seed]]).astype(int)
            for seed in range(self.n_seeds)
        ]
        repeated = [[rows] * self.n_universes for rows in training]  # so that one program serves
        own_labels = [[self.table.y_pool[rows]] * self.n_universes for rows in training]
        weights = self._fit(repeated, own_labels, round_number, 0)[:, 0]
        self.times["fit"].append(clock() - started_at)
        started_at = clock()
        for seed in range(self.n_seeds):
            probs = np.asarray(_mean_probs(self.table.X_test.astype(np.float32), weights[seed]))
            for metric, value in measure(probs, self.table.y_test).items():
                self.metrics[seed].setdefault(metric, []).append(round(float(value), 7))
        self.times["predict"].append(clock() - started_at)
        if round_number == self.budget.rounds:
            return
        started_at = clock()
        candidates = []
        targets = []
        labels = []
        for seed in range(self.n_seeds):
            n_pool = len(self.table.y_pool)
            candidates.append(
                draw_candidates(seed, round_number, n_pool, training[seed], self.n_candidates)
            )
            n_source = len(self.table.X_target_source)
            targets.append(draw_targets(seed, round_number, n_source, 1_000))
            generator_seed = _derived_seed(seed, "select", round_number)
            X = self.table.X_pool[candidates[-1]].astype(np.float32)
            labels.append(_pseudo_labels(X, weights[seed], generator_seed, self.n_universes))
        X_candidates = np.stack([self.table.X_pool[rows] for rows in candidates])
        X_targets = np.stack([self.table.X_target_source[rows] for rows in targets])
        batches: list[list[int]] = [[] for _ in range(self.n_seeds)]
        weights = weights[:, None]
        for step in range(self.budget.batch):
            scores = np.array(_mean_epig(X_candidates, X_targets, weights))
            for seed, batch in enumerate(batches):
                scores[seed, batch] = -np.inf
                batch.append(int(scores[seed].argmax()))
            if step + 1 == self.budget.batch:
                break
            rows = []
            pseudo_labels = []
            for seed, batch in enumerate(batches):
                positions = np.concatenate([training[seed], candidates[seed][batch]])
                true_labels = self.table.y_pool[training[seed]]
                rows.append([positions] * self.n_universes)
                pseudo_labels.append(
                    [np.concatenate([true_labels, guesses[batch]]) for guesses in labels[seed]]
                )
            weights = self._fit(rows, pseudo_labels, round_number, step + 1)
        for seed, batch in enumerate(batches):
            self.chosen[seed].append(candidates[seed][batch].tolist())
        self.times["select"].append(clock() - started_at)

    def _fit(
        self, rows: list[list[np.ndarray]], labels: list[list[np.ndarray]], *path: int
    ) -> np.ndarray:
        """Draw weights (S, U, D+1, K) for the rows and labels of every seed and universe."""
        import jax

        n_fits = self.n_seeds * self.n_universes
        n_columns = self.table.X_pool.shape[1]
        X = np.zeros((n_fits, self.n_rows, n_columns + 1))
        signs = np.zeros((n_fits, self.n_rows))
        flat_rows = [positions for of_seed in rows for positions in of_seed]
        flat_labels = [values for of_seed in labels for values in of_seed]
        for fit, (positions, values) in enumerate(zip(flat_rows, flat_labels, strict=True)):
            X[fit, : len(positions), :-1] = self.table.X_pool[positions]
            X[fit, : len(positions), -1] = 1.0
            signs[fit, : len(positions)] = 2.0 * values - 1.0
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), path[0]), path[1])
        draws = draw_many(jax.random.split(key, n_fits), X, signs)
        return np.asarray(draws, np.float32).reshape(
            self.n_seeds, self.n_universes, n_columns + 1, -1
        )

    def _write_records(self) -> None:
        from parbals_bench.run.records import RunRecord, write_line
        from parbals_bench.run.single import _versions
        from parbals_bench.run.spec import Run, Settings

        settings = Settings(inference="nuts", departures=DEPARTURES)
        lines = []
        for seed in range(self.n_seeds):
            times = {stage: np.round(x, 4).tolist() for stage, x in self.times.items()}
            record = RunRecord(
                run=Run(self.name, self.budget, "parbals-epig", seed, settings=settings),
                metrics={name: tuple(values) for name, values in self.metrics[seed].items()},
                initial=tuple(self.initial[seed].tolist()),
                chosen=tuple(map(tuple, self.chosen[seed][: self.budget.rounds])),
                seconds={stage: tuple(values) for stage, values in times.items()},
                versions=_versions(),
                data=self.table.digest,
                inference=("nuts",) * (self.budget.rounds + 1),
                notes=(
                    *self.table.notes,
                    f"{self.n_seeds} seeds in step, chains of {N_WARM_UP} + "
                    f"{N_SAMPLES // N_CHAINS}; seconds are those of all seeds together",
                ),
            )
            lines.append(write_line(record))
        (self.out / f"{self.name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


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


def _draw_many(keys: Any, X: Any, signs: Any) -> Any:
    """Draws (F, d, K) of F posteriors, given design rows (F, n, d) and labels ±1, 0 of no row."""
    import jax

    return jax.vmap(_draw)(keys, X, signs)


def _draw(key: Any, X: Any, signs: Any) -> Any:
    """Draws (d, K) of contrast weights v with prior N(0, I) and p(y) = σ(√2 y v·x)."""
    import blackjax
    import jax
    import jax.numpy as jnp

    root_two = np.sqrt(2.0)
    identity = jnp.eye(X.shape[1])

    def hessian_root(v: Any) -> Any:
        p = jax.nn.sigmoid(root_two * (X @ v))
        curvature = 2.0 * p * (1.0 - p) * jnp.abs(signs)
        return jnp.linalg.cholesky(identity + (X * curvature[:, None]).T @ X)

    def newton(_: int, v: Any) -> Any:
        residual = root_two * signs * jax.nn.sigmoid(-root_two * signs * (X @ v))
        gradient = X.T @ residual - v
        return v + jax.scipy.linalg.cho_solve((hessian_root(v), True), gradient)

    mode = jax.lax.fori_loop(0, N_NEWTON, newton, jnp.zeros(X.shape[1]))
    factor = jax.scipy.linalg.solve_triangular(hessian_root(mode), identity, lower=True).T
    design = X @ factor
    offset = X @ mode

    def log_posterior(z: Any) -> Any:
        logits = root_two * signs * (offset + design @ z)
        log_probs = jnp.abs(signs) * jax.nn.log_sigmoid(logits)
        return jnp.sum(log_probs) - 0.5 * jnp.sum(jnp.square(mode + factor @ z))

    def run_chain(chain_key: Any) -> Any:
        start_key, warm_up_key, draw_key = jax.random.split(chain_key, 3)
        start = jax.random.normal(start_key, (X.shape[1],))
        warm_up = blackjax.window_adaptation(blackjax.nuts, log_posterior)
        (state, parameters), _ = warm_up.run(warm_up_key, start, num_steps=N_WARM_UP)
        kernel = blackjax.nuts(log_posterior, **parameters)

        def step(state: Any, step_key: Any) -> Any:
            state, _ = kernel.step(step_key, state)
            return state, state.position

        _, z = jax.lax.scan(step, state, jax.random.split(draw_key, N_SAMPLES // N_CHAINS))
        return z

    z = jax.vmap(run_chain)(jax.random.split(key, N_CHAINS)).reshape(-1, X.shape[1])
    return mode[:, None] + factor @ z.T


draw_many = _jit(_draw_many)


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

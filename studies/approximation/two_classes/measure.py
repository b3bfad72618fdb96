"""One design: long chains of NumPyro's NUTS, and what each posterior gets wrong beside them.

The chains share nothing with the library but the model's definition. In coordinates in which the
prior of v = w₁ - w₀ is N(0, I) the likelihood depends on the row space of the design alone, so NUTS
runs there, centred and scaled at the mode, and what lies across the row space is drawn from the
prior: exact, and as cheap with 384 features as with 20 labels allow.

The chains form two halves. Half their difference is the Monte-Carlo error of their mean. They also
take the floor off the reference's own EPIG: information from K draws is too large by some b/K, that
from a half by 2b/K, so twice the information of all draws less the mean of the halves' is free of
it. To first order this puts c₁ c₂ in the place of c², c₁ and c₂ the halves' covariances of a pair
of labels.
"""

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from approximation.two_classes.designs import Design
from lib.gaussian import covariance_between
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import spearmanr

__all__ = ["Effort", "measure"]

PARTICLES = {"400 particles": (400, 5), "4,000 particles": (4_000, 1)}
"""How many, and with how many seeds; errors are root mean squares over them."""
_BLOCK = 2_048
_RUN = 25


class Effort(NamedTuple):
    """Of the reference: chains, warm-up of each, draws of all together, a limit in seconds."""

    n_chains: int
    n_warm_up: int
    n_draws: int
    seconds: float


class Moments(NamedTuple):
    """Of p(y = 1 | x) and of the logit at M target points, (M,) each."""

    p_mean: np.ndarray
    p_sd: np.ndarray
    logit_mean: np.ndarray
    logit_sd: np.ndarray


def measure(design: Design, effort: Effort) -> dict[str, Any]:
    """Errors of every posterior against the reference, as plain values."""
    halves, facts = _reference(design, effort)
    truth = Moments(*(0.5 * (a + b) for a, b in zip(*(h.moments for h in halves), strict=True)))
    scores, rank = _epig_of_halves(halves)
    facts |= {
        "error": _errors(halves[0].moments, truth),  # half the difference of the halves
        "rank": rank,
        "epig_best": float(scores.max()),
    }
    methods = {"EP": _of_ep(design, truth, scores)}
    for name, (n_samples, n_seeds) in PARTICLES.items():
        runs = [_of_particles(design, n_samples, seed, truth, scores) for seed in range(n_seeds)]
        methods[name] = _together(runs)
    n_labels, n_features = design.X.shape
    return {
        "n_labels": n_labels,
        "n_features": n_features,
        "positives": int(design.y.sum()),
        "norm": float(np.sqrt(np.mean(np.square(design.pool).sum(axis=1)))),
        "reference": facts,
        "methods": methods,
    }


# -- the reference


class Half(NamedTuple):
    """What one half of the chains says: moments at the targets, and sums for EPIG."""

    moments: Moments
    pool_mean: np.ndarray  # E[p] (N,)
    covariance: np.ndarray  # of p at pool points and p at targets (N, M)


def _with_ones(X: np.ndarray) -> np.ndarray:
    return np.column_stack([X, np.ones(len(X))])


def _reference(design: Design, effort: Effort) -> tuple[list[Half], dict[str, Any]]:
    start = time.perf_counter()
    rows, pool, target = (
        np.sqrt(2.0) * _with_ones(matrix) for matrix in (design.X, design.pool, design.target)
    )
    signs = 2.0 * design.y - 1.0
    basis = np.linalg.qr(rows.T)[0] if len(rows) < rows.shape[1] else np.eye(rows.shape[1])
    draws = _nuts(rows @ basis, signs, effort, start)  # (chains, S, r)
    logits = draws @ (target @ basis).T  # without what lies across: the same for every chain
    facts = {
        "n_draws": draws.shape[0] * draws.shape[1],
        "r_hat": _largest_r_hat(logits),
        "least_effective": _least_effective(logits),
        "seconds": time.perf_counter() - start,
    }
    rng = np.random.default_rng(0)
    n_half = len(draws) // 2
    halves = []
    for half_draws in (draws[:n_half], draws[n_half:]):
        flat = half_draws.reshape(-1, half_draws.shape[2])
        halves.append(_half(flat, basis, pool, target, rng))
    return halves, facts


def _nuts(rows: np.ndarray, signs: np.ndarray, effort: Effort, start: float) -> np.ndarray:
    """Draws (chains, S, r) of u ~ N(0, I) Π σ(s_i rows_i·u), in runs until enough or too late."""
    import jax
    import jax.numpy as jnp
    from numpyro.infer import NUTS

    mode, root = _mode(rows, signs)
    signed = signs[:, None] * rows
    with jax.enable_x64(True):
        center, spread, images, offsets = (
            jnp.asarray(array) for array in (mode, root, signed @ root, signed @ mode)
        )

        def potential(s: Any) -> Any:
            u = center + spread @ s
            return 0.5 * jnp.sum(u * u) - jnp.sum(jax.nn.log_sigmoid(images @ s + offsets))

        kernel = NUTS(potential_fn=potential)

        @jax.jit
        def run(state: Any) -> Any:
            def step(state: Any, _: None) -> Any:
                state = kernel.sample(state, (), {})
                return state, state.z

            return jax.lax.scan(step, state, length=_RUN)

        # NumPyro's MCMC compiles every run again, which takes longer than the run.
        keys = jax.random.split(jax.random.key(1), effort.n_chains)
        first = np.random.default_rng(2).standard_normal((effort.n_chains, len(mode)))
        state = kernel.init(keys, effort.n_warm_up, jnp.asarray(first), (), {})
        for _ in range(effort.n_warm_up // _RUN):
            state, _ = run(state)
        parts: list[np.ndarray] = []
        while len(parts) * _RUN * effort.n_chains < effort.n_draws:
            state, drawn = run(state)  # (_RUN, chains, r)
            parts.append(np.asarray(drawn))
            if len(parts) > 4 and time.perf_counter() - start > effort.seconds:
                break
    return mode + np.concatenate(parts).swapaxes(0, 1) @ root.T


def _mode(rows: np.ndarray, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mode (r,), and root (r, r) with root rootᵀ the inverse Hessian there."""
    signed = signs[:, None] * rows

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        margin = signed @ u
        value = 0.5 * u @ u - log_expit(margin).sum()
        return float(value), u - signed.T @ expit(-margin)

    def hessian(u: np.ndarray) -> np.ndarray:
        p = expit(signed @ u)
        return np.eye(len(u)) + (signed.T * (p * (1.0 - p))) @ signed

    mode = minimize(loss, np.zeros(rows.shape[1]), jac=True, hess=hessian, method="trust-exact").x
    return mode, np.linalg.inv(np.linalg.cholesky(hessian(mode))).T


def _half(
    draws: np.ndarray, basis: np.ndarray, pool: np.ndarray, target: np.ndarray, rng: Any
) -> Half:
    """Sums over blocks of draws (S, r); what lies across the row space is drawn from the prior."""
    sums = [np.zeros(len(target)) for _ in range(4)]
    pool_sum = np.zeros(len(pool))
    product = np.zeros((len(pool), len(target)))
    for first in range(0, len(draws), _BLOCK):
        noise = rng.standard_normal((len(basis), len(draws[first : first + _BLOCK])))
        weights = basis @ (draws[first : first + _BLOCK].T - basis.T @ noise) + noise  # (d, S)
        f = target @ weights
        q = expit(f)
        p = expit(pool @ weights)
        for total, values in zip(sums, (q, q * q, f, f * f), strict=True):
            total += values.sum(axis=1)
        pool_sum += p.sum(axis=1)
        product += p @ q.T
    q_mean, q_square, f_mean, f_square = (total / len(draws) for total in sums)
    pool_mean = pool_sum / len(draws)
    moments = Moments(
        q_mean,
        np.sqrt(np.maximum(q_square - q_mean**2, 0.0)),
        f_mean,
        np.sqrt(np.maximum(f_square - f_mean**2, 0.0)),
    )
    return Half(moments, pool_mean, product / len(draws) - np.outer(pool_mean, q_mean))


def _epig_of_halves(halves: list[Half]) -> tuple[np.ndarray, float]:
    """(N,) EPIG without the floor, and the rank correlation of what the two halves say."""
    means = [(half.pool_mean, half.moments.p_mean, half.covariance) for half in halves]
    # Covariances about the halves' own means: what those differ by is left out.
    together = _information(*(0.5 * (a + b) for a, b in zip(*means, strict=True))).mean(axis=1)
    apart = [_information(*parts).mean(axis=1) for parts in means]
    return 2.0 * together - 0.5 * (apart[0] + apart[1]), _rank(*apart)


def _information(p: np.ndarray, q: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """I(Y ; Y') (N, M) of labels with means p (N,), q (M,) and this covariance."""
    total = np.zeros_like(covariance)
    for a, b, sign in ((p, q, 1), (p, 1 - q, -1), (1 - p, q, -1), (1 - p, 1 - q, 1)):
        alone = np.maximum(np.outer(a, b), 1e-30)
        cell = np.maximum(alone + sign * covariance, 1e-300)
        total += cell * np.log(cell / alone)
    return total


def _largest_r_hat(logits: np.ndarray) -> float:
    from blackjax.diagnostics import potential_scale_reduction

    half = logits.shape[1] // 2
    halves = np.concatenate([logits[:, :half], logits[:, -half:]])
    return float(potential_scale_reduction(halves).max())


def _least_effective(logits: np.ndarray) -> float:
    from blackjax.diagnostics import effective_sample_size

    parts = (logits[:, :, i : i + 20] for i in range(0, 100, 20))
    return float(min(effective_sample_size(block).min() for block in parts))


# -- what is judged


def _of_ep(design: Design, truth: Moments, scores: np.ndarray) -> dict[str, Any]:
    import jax.numpy as jnp
    from parbals.mixture import sigmoid_means
    from parbals.posterior.predictive import add_bias
    from parbals.scores.gaussian import closed_epig

    model, seconds = _fitted(design, inference="ep")
    posterior = model.gaussian
    pool = add_bias(design.pool)
    target = add_bias(design.target)
    mean, variance = posterior.marginals(target)
    first, slope = sigmoid_means(mean, variance, 1)  # σ² = σ - σ'
    moments = Moments(
        first, np.sqrt(np.maximum(first - slope - first**2, 0.0)), mean, np.sqrt(variance)
    )
    covariance = covariance_between(posterior.latents, pool, target)[0]
    parts = (*posterior.marginals(pool), mean, variance, covariance)
    ours = np.asarray(closed_epig(*(jnp.asarray(array, jnp.float32) for array in parts)))
    result = {"n_sweeps": posterior.n_sweeps, "change": posterior.residual}
    return _judged(moments, ours, truth, scores, model, seconds) | result


def _of_particles(
    design: Design, n_samples: int, seed: int, truth: Moments, scores: np.ndarray
) -> dict[str, Any]:
    from parbals.scores.epig import epig

    model, seconds = _fitted(design, inference="smc", n_samples=n_samples, random_state=seed)
    weights = np.sqrt(2.0) * model._posterior.coefficients[:, 0, :]  # (d, K) of the logit
    f = _with_ones(design.target) @ weights
    q = expit(f)
    moments = Moments(q.mean(axis=1), q.std(axis=1), f.mean(axis=1), f.std(axis=1))
    p = expit(_with_ones(design.pool) @ weights)
    ours = epig(*(np.stack([1.0 - probs, probs], axis=2) for probs in (p, q)))
    return _judged(moments, ours, truth, scores, model, seconds)


def _fitted(design: Design, **options: Any) -> tuple[Any, float]:
    from parbals.posterior.estimator import LogisticModel

    fixed = {"prior_scale": 1.0, "random_state": 0}
    model = LogisticModel(classes=[0, 1], **fixed | options)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is kept with the diagnostics
        model.fit(design.X, design.y)
    return model, time.process_time() - start


def _judged(
    moments: Moments, ours: np.ndarray, truth: Moments, scores: np.ndarray, model: Any, cpu: float
) -> dict[str, Any]:
    return _errors(moments, truth) | {
        "rank": _rank(ours, scores),
        "efficiency": float(scores[ours.argmax()] / scores.max()),
        "problems": list(model.diagnostics_.problems),
        "cpu_seconds": cpu,
    }


def _errors(moments: Moments, truth: Moments) -> dict[str, float]:
    """Root mean squares over the targets; logits in units of their true deviation."""
    parts = {
        "p_mean": moments.p_mean - truth.p_mean,
        "p_sd": moments.p_sd - truth.p_sd,
        "logit_mean": (moments.logit_mean - truth.logit_mean) / truth.logit_sd,
        "logit_sd": moments.logit_sd / truth.logit_sd - 1.0,
    }
    errors = {
        name: float(np.sqrt(np.mean(np.square(differences)))) for name, differences in parts.items()
    }
    return errors | {"p_mean_max": float(np.abs(parts["p_mean"]).max())}


def _together(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Root mean squares of errors over the seeds, means of the rest."""
    merged: dict[str, Any] = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        if name == "problems":
            merged[name] = sorted({problem for value in values for problem in value})
        elif name in ("rank", "efficiency", "cpu_seconds"):
            merged[name] = float(np.mean(values))
        else:
            merged[name] = float(np.sqrt(np.mean(np.square(values))))
    return merged


def _rank(a: np.ndarray, b: np.ndarray) -> float:
    return float(spearmanr(a, b).statistic)

"""The root mean squared error of numbers: as the model expects it, and as an audit finds it.

*Expected.* If a draw of the posterior were the truth, somebody who labelled the M target points
would find a mean squared error of (mean of (m - f)²) + σ² χ²_M / M; the report is over draws of f,
of σ² and of that noise. A posterior knows no more than its family, and its own labels tell:
residuals of labels left out, in their own deviations, are N(0, T²), with ln T ~ N(0, 0.35²) before
them, and all errors are T times what they were. The audit's labels, which trained nothing, count
as well. T is known to ±0.1 at best: a strategy's labels are not like the rest.

*Measured.* Squared errors have no bound, so that no interval holds exactly. The audit's is normal
in ln of the mean squared error: it holds as the audit grows.
"""

import numpy as np

from parbals.learner.evaluation.audit import current_look
from parbals.learner.evaluation.report import Estimate, Measurement
from parbals.learner.state import State
from parbals.posterior.predictive import add_bias
from parbals.randomness import derive_generator

__all__ = ["expected_rmse", "measured_rmse"]

_DRAWS = 400
_WIDTH, _MISFIT = 0.35, 0.1  # deviations of ln T before any label, and after all


def expected_rmse(state: State, targets: np.ndarray) -> Estimate | None:
    """The error on target rows (M, D), with its 90 % interval; None before two labels."""
    if len(state.training[0]) < 2:
        return None
    model = state.fitted()
    posterior, generator = model.gaussian, derive_generator(state.setup.seed, "report")
    design = add_bias(targets.astype(np.float64))
    off = design @ posterior.latents.draw(generator, _DRAWS)[:, 0]  # (M, draws)
    off -= posterior.marginals(design)[0][:, None]
    # One draw of σ² scales all: noise, and how far f is known.
    noise = posterior.noise * posterior.freedom / generator.chisquare(posterior.freedom, _DRAWS)
    drawn = np.square(off).mean(axis=0) * noise / posterior.noise
    drawn += noise * generator.chisquare(len(targets), _DRAWS) / len(targets)
    log_heat, deviation = _heat(state)
    heats = np.exp(log_heat + deviation * generator.standard_normal(_DRAWS))
    low, middle, high = np.quantile(posterior.unit * np.sqrt(drawn) * heats, [0.05, 0.5, 0.95])
    return Estimate(float(middle), float(low), float(high))


def _heat(state: State) -> tuple[float, float]:
    """ln T and its deviation."""
    model, (_, numbers) = state.fitted(), state.training
    mean, deviation = model.gaussian.leave_one_out()
    ratios = (numbers - mean) / deviation
    if len(state.audited):
        mean, deviation = model.predict(state.setup.pool_rows(state.audited))
        ratios = np.append(ratios, (state.encoded_labels(state.audited) - mean) / deviation)
    squares = np.square(ratios)
    level = float(max(squares.mean(), 1e-24))
    # Of ln T = ½ ln(mean square), as its own spread has it; that of normal ones at least.
    spread = max(float(squares.var()) / level**2, 2.0) / (4.0 * len(squares))
    share = _WIDTH**2 / (_WIDTH**2 + spread)
    # Residuals of nothing at all have their likelihood T⁻ⁿ, and so the mode at -n w².
    log_heat = max(0.5 * np.log(level) * share, -len(squares) * _WIDTH**2)
    return log_heat, float(np.hypot(np.sqrt(share * spread), _MISFIT))


def measured_rmse(state: State) -> Measurement | None:
    """What the audit's latest look says; None without an audit."""
    from scipy.special import ndtri

    size = len(state.setup.audit)
    if not size:
        return None
    look, training, audited = current_look(state)
    if look is None:
        return Measurement(None, 0, 0, size, 0, {}, {}, loss="rmse")
    model = state.model_of(training)
    mean, _ = model.predict(state.setup.pool_rows(audited))
    squares = np.square(state.encoded_labels(audited) - mean)
    level = float(squares.mean())
    wide = float(-ndtri(look.delta) * squares.std() / np.sqrt(len(squares)) / max(level, 1e-300))
    error = Estimate(*(float(np.sqrt(level * np.exp(x))) for x in (0.0, -wide, wide)))
    return Measurement(error, len(squares), 0, size, look.n_labels, {}, {}, loss="rmse")

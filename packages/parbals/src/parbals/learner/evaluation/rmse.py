"""The root mean squared error (RMSE) of a regression: expected by the model, measured by an audit.

*Expected.* If a posterior draw f were the truth, labels of the M target points would show a mean
squared error of (mean of (m - f)²) + σ² χ²_M / M, m being the predicted mean and σ² the variance of
the noise. The median and the interval are over draws of f, σ² and χ²_M. Since the model may not fit
the data, expected errors are multiplied by a temperature T: leave-one-out residuals, divided by
their predicted standard deviations, are taken to be N(0, T²), with the prior ln T ~ N(0, 0.35²).
Residuals of audit items, on which the model is not trained, count as well. The standard deviation
of ln T is at least 0.1, because the items that a strategy selects differ from others. A target set
that differs from the pool adds to it, as in :mod:`parbals.learner.evaluation.expectation`.
Gross errors (:mod:`parbals.posterior.closed.regression`) do not count, and a warning names them.

*Measured.* Squared errors are unbounded, so no interval of the RMSE holds for all of them. Normal
errors with variance s² have n · (mean square) / s² ~ χ²_n, which gives exact limits. Where the
squares vary more than those of normal errors, the degrees of freedom are fewer, by Satterthwaite's
formula ν = 2 mean² / variance: limits of long-tailed errors are wider, and still fail too often.
The median of the absolute errors has an exact limit, whatever their distribution is: the j-th
smallest of n is below the median with a probability of P(Binomial(n, ½) ≥ j), and j is the smallest
for which this is at most δ.
"""

import numpy as np

from parbals.learner.evaluation.audit import current_look
from parbals.learner.evaluation.expectation import log_t_shift_sd
from parbals.learner.evaluation.report import Estimate, Measurement
from parbals.learner.state import State
from parbals.posterior.predictive import add_bias
from parbals.randomness import derive_generator

__all__ = [
    "chi_square_limits",
    "expected_rmse",
    "measured_rmse",
    "median_limit",
    "outlier_sentence",
]

_N_DRAWS = 400
_LOG_T_PRIOR_SD = 0.35
_LOG_T_MISFIT_SD = 0.1
"""Standard deviation of ln T that remains however many labels there are."""
_MAX_NAMED = 5
"""Number of labels that a warning names."""
_EPS = 1e-300
"""Guards divisions."""


def expected_rmse(state: State, targets: np.ndarray) -> Estimate | None:
    """Estimate the RMSE on target rows (M, D), with a 90 % interval; None before two labels."""
    if len(state.training_labels[0]) < 2:
        return None
    posterior = state.fitted().gaussian
    generator = derive_generator(state.setup.seed, "report")
    design = add_bias(targets.astype(np.float64))
    function_error = design @ posterior.latents.draw(generator, _N_DRAWS)[:, 0]  # (M, draws)
    function_error -= posterior.marginals(design)[0][:, None]
    # A draw of σ² scales both the noise and the uncertainty of f.
    chi_square = generator.chisquare(posterior.degrees_of_freedom, _N_DRAWS)
    noise = posterior.noise_variance * posterior.degrees_of_freedom / chi_square
    mean_squares = np.square(function_error).mean(axis=0) * noise / posterior.noise_variance
    mean_squares += noise * generator.chisquare(len(targets), _N_DRAWS) / len(targets)
    log_mean, log_sd = _fit_log_temperature(state)
    log_sd = np.hypot(log_sd, log_t_shift_sd(state.setup.shift_auc))
    temperatures = np.exp(log_mean + log_sd * generator.standard_normal(_N_DRAWS))
    rmse = posterior.label_scale * np.sqrt(mean_squares) * temperatures
    low, median, high = np.quantile(rmse, [0.05, 0.5, 0.95])
    return Estimate(float(median), float(low), float(high))


def outlier_sentence(state: State) -> str | None:
    """Name the labels that the model left out as gross errors; None if there are none."""
    posterior = state.fitted().gaussian
    positions, labels = state.training_labels
    outliers = np.flatnonzero(posterior.is_outlier)
    if not len(outliers):
        return None
    named = [f"{labels[i]:g} (item {positions[i]})" for i in outliers[:_MAX_NAMED]]
    n_unnamed = len(outliers) - len(named)
    ending = f" and {n_unnamed} more" if n_unnamed else ""
    return (
        f"Labels more than 6 standard deviations from their leave-one-out predictions: "
        f"{', '.join(named)}{ending}. They are left out of the model and of the expected RMSE; "
        "check them."
    )


def _fit_log_temperature(state: State) -> tuple[float, float]:
    """Fit ln T to leave-one-out residuals and audit residuals: its mean and standard deviation."""
    model = state.fitted()
    _, labels = state.training_labels
    mean, deviation = model.gaussian.leave_one_out()
    is_inlier = ~model.gaussian.is_outlier
    residuals = ((labels - mean) / deviation)[is_inlier]
    if len(state.audited):
        mean, deviation = model.predict(state.setup.pool_rows(state.audited))
        audit_residuals = (state.encoded_labels(state.audited) - mean) / deviation
        residuals = np.append(residuals, audit_residuals)
    squares = np.square(residuals)
    n = len(squares)
    mean_square = float(max(squares.mean(), 1e-24))
    # Variance of ln T = ½ ln(mean square), by the delta method; at least that of normal residuals.
    variance = max(float(squares.var()) / mean_square**2, 2.0) / (4.0 * n)
    prior_variance = _LOG_T_PRIOR_SD**2
    shrinkage = prior_variance / (prior_variance + variance)
    # If all residuals are zero, the likelihood is T⁻ⁿ and the posterior mode of ln T is finite: -n
    # times the prior variance.
    log_mean = max(0.5 * np.log(mean_square) * shrinkage, -n * prior_variance)
    return log_mean, float(np.hypot(np.sqrt(shrinkage * variance), _LOG_T_MISFIT_SD))


def measured_rmse(state: State) -> Measurement | None:
    """Measure the RMSE at the audit's latest look; None without an audit."""
    n_audit = len(state.setup.audit)
    if not n_audit:
        return None
    look, training_positions, audited = current_look(state)
    if look is None:
        return Measurement(
            error=None,
            n=0,
            n_wrong=0,
            n_audit=n_audit,
            n_labels=0,
            recall={},
            precision={},
            loss="rmse",
        )
    model = state.model_of(training_positions)
    mean, _ = model.predict(state.setup.pool_rows(audited))
    squares = np.square(state.encoded_labels(audited) - mean)
    n = len(squares)
    mean_square = float(squares.mean())
    low, high = chi_square_limits(squares, look.delta)
    return Measurement(
        error=Estimate(float(np.sqrt(mean_square)), low, high),
        n=n,
        n_wrong=0,
        n_audit=n_audit,
        n_labels=look.n_labels,
        recall={},
        precision={},
        loss="rmse",
        median_error=median_limit(np.sqrt(squares), look.delta),
    )


def chi_square_limits(squares: np.ndarray, delta: float) -> tuple[float, float]:
    """Limits of the RMSE from squared errors (n,); each fails with probability δ for normal errors.

    >>> low, high = chi_square_limits(np.full(60, 4.0), 0.05)
    >>> round(low, 2), round(high, 2)
    (1.74, 2.36)
    """
    from scipy.special import gammaincinv

    n = len(squares)
    mean_square = float(squares.mean())
    variance = float(squares.var(ddof=1)) if n > 1 else 0.0
    freedom = min(float(n), 2.0 * n * mean_square**2 / max(variance, _EPS))
    freedom = max(freedom, 1.0)
    low_square = mean_square * freedom / (2.0 * gammaincinv(freedom / 2.0, 1.0 - delta))
    high_square = mean_square * freedom / (2.0 * gammaincinv(freedom / 2.0, delta))
    return float(np.sqrt(low_square)), float(np.sqrt(high_square))


def median_limit(errors: np.ndarray, delta: float) -> float | None:
    """Upper limit of the median of absolute errors (n,); None where they are too few.

    >>> median_limit(np.arange(60.0), 0.05)
    36.0
    """
    from scipy.special import bdtrc

    n = len(errors)
    ranks = np.arange(1, n + 1)
    is_enough = bdtrc(ranks - 1, n, 0.5) <= delta  # P(Binomial(n, ½) ≥ rank)
    if not is_enough.any():
        return None
    return float(np.sort(errors)[int(is_enough.argmax())])

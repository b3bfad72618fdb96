"""docs/explanation/trust.md and docs/explanation/trust.png from the results that trust.py keeps."""

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["write_report"]

METHODS = ("EP", "400 particles", "4,000 particles")
_COLOURS = {"EP": "#0072b2", "400 particles": "#d55e00", "4,000 particles": "#009e73"}
_TEXT = """# How exact is the default inference?

**As exact as thousands of samples, at a fraction of the cost.** By default parbals approximates the
posterior by a Gaussian (expectation propagation, EP), on which predictions, EPIG, BALD and ParBaLS
have closed forms. It orders candidates as long chains of NUTS do, and better than 400 particles
can. Its weak spot are few, steep or separable features, where the spread of a prediction may be
a few per cent off.

This page compares two-class EP and particles with long chains of NumPyro's NUTS on {n} designs: the
statistical tests, synthetic data, and real data, one class against the rest (1,000 pool points,
300 targets, prior scale 1). The terms are in the [glossary](../glossary.md#model-and-features).
Written by `python studies approximation.two_classes --report`; do not edit.

![Errors of predictions and of EPIG, design by design](trust.png)

{findings}

## When does the learner use samples instead?
`ActiveLearner(inference="auto")`, the default, uses EP. It falls back to particles

* when the sweeps of EP have not converged (two classes: a site still changes by more than 0.001 of
  the largest after 200 sweeps; more classes: by 0.01 after 100);
* when the variances of the classes' logits differ more than a hundredfold at the labelled rows.

`learner.fitted().diagnostics_.inference` says which one was used. Where the standard deviation of
a prediction must be right within a few per cent on few, steep or separable features, take
`inference="smc"` with a large `n_samples`, or `"nuts"`. For more than two classes see
[another study](../../studies/approximation/many_classes/README.md).

## Leave-one-out predictions
The report predicts each label from all others. With two classes the cavity distribution gives this
prediction; with more, the label is removed by the joint covariance of all classes. Compared with
refits without each label (six designs, 3 to 10 classes, 100 to 200 labels, 10 to 300 features):

| | mean log score, nats | temperature, ln T |
| --- | ---: | ---: |
| removed jointly, as now | at most 0.010 off | at most 0.06 off |
| removed class by class | 0.013 to 0.13 off | 0.06 to 0.19 off |

`tests/learner/evaluation/test_expectation.py` compares them.

## Predictions
Root mean square errors over the targets, in thousandths: of E[p(y = 1 | x)] and of its standard
deviation; in per cent: of the logit's mean in units of its true deviation, and of that deviation.
Each cell: EP · 400 particles · 4,000 particles. *NUTS*: the error of the reference itself
(half the difference of two halves of its chains), its draws and its largest R-hat.

{predictions}

## EPIG
Compared with EPIG from the chains' draws, bias-corrected by halves (twice the information of all
draws less the mean of the halves). *Rank*: rank correlation over the pool; in brackets that between
the two halves of the chains, a limit for any method. Where that is small (norm 0.01) all points are
nearly alike, and there is no order to find. *Efficiency*: true EPIG of the point that the method
would choose, relative to the best point.

{epig}
"""


def write_report(records: dict[str, dict[str, Any]], folder: Path) -> list[Path]:
    """The page and its picture."""
    page = folder / "trust.md"
    picture = folder / "trust.png"
    text = _TEXT.format(
        n=len(records),
        findings=_findings(records),
        predictions=_predictions(records),
        epig=_epig(records),
    )
    page.write_text(text, encoding="utf-8")
    _draw(records, picture)
    return [page, picture]


def _values(records: dict[str, dict[str, Any]], method: str, name: str) -> np.ndarray:
    return np.array([record["methods"][method][name] for record in records.values()])


def _findings(records: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| over all designs, median (worst) | " + " | ".join(METHODS) + " |",
        "| --- | ---: | ---: | ---: |",
    ]
    rows = (
        ("error of E[p], thousandths", "p_mean", 1e3, ".1f", np.max),
        ("error of the deviation of p, thousandths", "p_sd", 1e3, ".1f", np.max),
        ("error of the logit's mean, % of its deviation", "logit_mean", 1e2, ".1f", np.max),
        ("error of the logit's deviation, %", "logit_sd", 1e2, ".1f", np.max),
        ("rank correlation of EPIG", "rank", 1.0, ".3f", np.min),
        ("efficiency of the chosen point", "efficiency", 1.0, ".3f", np.min),
    )
    for words, name, factor, form, worst in rows:
        cells = []
        for method in METHODS:
            values = factor * _values(records, method, name)
            cells.append(f"{np.median(values):{form}} ({worst(values):{form}})")
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    counts = []
    for name, sign, words in (
        ("p_mean", 1, "E[p]"),
        ("logit_sd", 1, "the logit's deviation"),
        ("rank", -1, "the order of EPIG"),
    ):
        ours, theirs = (sign * _values(records, method, name) for method in METHODS[:2])
        counts.append(f"{words} in {np.count_nonzero(ours <= theirs)}")
    settled = sum(not record["methods"]["EP"]["problems"] for record in records.values())
    lines += [
        "",
        f"Expectation propagation converged on {settled} of {len(records)} designs. It is closer "
        f"to the reference than 400 particles for {', for '.join(counts)} of them.",
    ]
    return "\n".join(lines)


def _predictions(records: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| design | n, D | E[p] | deviation of p | logit's mean, % | its deviation, % | NUTS: "
        "E[p], deviation | draws, R-hat |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, record in records.items():
        facts = record["reference"]
        cells = [name, f"{record['n_labels']}, {record['n_features']}"]
        for key, factor in (("p_mean", 1e3), ("p_sd", 1e3), ("logit_mean", 1e2), ("logit_sd", 1e2)):
            values = (factor * record["methods"][method][key] for method in METHODS)
            cells.append(" · ".join(f"{value:.1f}" for value in values))
        cells.append(f"{1e3 * facts['error']['p_mean']:.1f}, {1e3 * facts['error']['p_sd']:.1f}")
        cells.append(f"{facts['n_draws']:,}, {facts['r_hat']:.3f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _epig(records: dict[str, dict[str, Any]]) -> str:
    lines = ["| design | best EPIG, nats | rank | efficiency |", "| --- | ---: | --- | --- |"]
    for name, record in records.items():
        methods = record["methods"]
        facts = record["reference"]
        rank = " · ".join(f"{methods[method]['rank']:.3f}" for method in METHODS)
        efficiency = " · ".join(f"{methods[method]['efficiency']:.3f}" for method in METHODS)
        lines.append(
            f"| {name} | {facts['epig_best']:.2g} | {rank} ({facts['rank']:.3f}) | {efficiency} |"
        )
    return "\n".join(lines)


def _draw(records: dict[str, dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import NullFormatter

    names = list(records)
    places = np.arange(len(names))[::-1]
    figure, axes = pyplot.subplots(
        1, 3, figsize=(12, 1.5 + 0.2 * len(names)), sharey=True, layout="constrained"
    )
    for axis, key, title in zip(
        axes,
        ("p_mean", "logit_sd", "rank"),
        ("error of E[p]", "relative error of the logit's deviation", "1 - rank correlation, EPIG"),
        strict=True,
    ):
        for method in METHODS:
            values = _values(records, method, key)
            values = np.maximum(1.0 - values, 1e-5) if key == "rank" else values
            axis.plot(values, places, "o", color=_COLOURS[method], label=method, markersize=4)
        facts = [record["reference"] for record in records.values()]
        reference_errors = [1.0 - f["rank"] if key == "rank" else f["error"][key] for f in facts]
        axis.plot(reference_errors, places, "|", color="0.4", label="NUTS itself", markersize=8)
        axis.set_xscale("log")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_title(title, fontsize=10)
        axis.grid(axis="x", color="0.9")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(places, names, fontsize=8)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)

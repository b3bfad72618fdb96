"""docs/explanation/coverage.md from the records of the study `promises`."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from error_estimates.promises.session import N_AUDIT, N_DRAWS, N_SAMPLE
from error_estimates.promises.sets import MODELS, ROWS, STRATEGIES, TEXTS, TUNED_ON
from error_estimates.statements.page import statement_table, verdict
from lib.folders import STUDIES
from lib.records import Record

__all__ = ["page"]

STATEMENTS_STUDY = STUDIES / "error_estimates/statements"
GOALS = (0.05, 0.1, 0.2, 0.3)
"""Errors that somebody may want to reach."""
MARKED_GAIN = 0.05
"""A relative decrease of the log loss that somebody would not call hardly any change."""
STRATEGY_NAMES = {"random": "random", "parbals-epig": "ParBaLS", "margin": "margin"}
MODEL_NAMES = {
    "default": "default model",
    "forest": "random forest",
    "adapted": "fine-tuned encoder",
}


@dataclass(frozen=True)
class Statement:
    """A statement of which it is promised how often it fails.

    Attributes:
        name: what is said.
        promise: share of sessions in which it may fail; None where nothing is promised.
        failures: record → the share of such statements of a session that fail; None if none is
            made.
    """

    name: str
    promise: float | None
    failures: Callable[[Record], float | None]


def page(records: list[Record]) -> Iterator[str]:
    """The lines of the page."""
    yield "# How often is a statement wrong?"
    yield ""
    yield from _summary(records)
    yield ""
    yield from _made_sessions()
    yield ""
    yield from _every_statement(records)
    yield ""
    yield from _expected_errors(records)
    yield ""
    yield from _by_set(records)
    yield ""
    yield from _method(records)


# -- statements


def _outside(estimate: Sequence[float], real: float) -> bool:
    """Return whether the truth lies outside an interval (mean, low, high)."""
    _, low, high = estimate
    return not low <= real <= high


def _expected(kind: str) -> Callable[[Record], float]:
    """Return how often the interval of an expected error does not hold the true error."""

    def failures(record: Record) -> float:
        checkpoints = record["at"].values()
        return float(np.mean([_outside(values[kind], values["real"]) for values in checkpoints]))

    return failures


def _look_fails(record: Record, *, only_above: bool) -> float | None:
    """Return whether the error was outside the measured limits at any look of the session."""
    fails = [
        real > high or (real < low and not only_above)
        for _, _, _, low, high, real in record["looks"]
    ]
    return float(any(fails)) if fails else None


def _sample_fails(record: Record, *, only_above: bool) -> float:
    """Return the share of samples whose limits did not hold the error."""
    counts = [values["certificate"] for values in record["at"].values()]
    fails = [too_low if only_above else too_low + too_high for too_low, too_high in counts]
    return float(np.mean(fails)) / N_DRAWS


def _share_fails(kind: str) -> Callable[[Record], float]:
    """Return the share of intervals of a class's share that did not hold it."""

    def failures(record: Record) -> float:
        n_draws = N_DRAWS if kind == "shares" else 1
        counts = [sum(values[kind]) for values in record["at"].values()]
        return float(np.mean(counts)) / n_draws / record["classes"]

    return failures


def _annotator_fails(record: Record) -> float | None:
    """Return the share of annotators whose interval does not hold their share of wrong answers."""
    fails = [not low <= share <= high for _, share, _, low, high in record["annotators"]]
    return float(np.mean(fails)) if fails else None


def _goal_fails(record: Record) -> float:
    """Return whether a goal was said to be reached, at any look, that was not."""
    return float(
        any(high < goal < real for _, _, _, _, high, real in record["looks"] for goal in GOALS)
    )


def _stop_fails(record: Record) -> float | None:
    """Return how often more labels helped after the report had said that they hardly would."""
    gains = [gain for stop, _, gain in (values["stop"] for values in record["at"].values()) if stop]
    return float(np.mean([gain > MARKED_GAIN for gain in gains])) if gains else None


STATEMENTS = (
    Statement(
        "The 90 % interval holds the true error: expected by the model", 0.1, _expected("expected")
    ),
    Statement(f"… expected, with a kept sample of {N_AUDIT} beside", 0.1, _expected("with_audit")),
    Statement(
        "… measured by the kept sample, at all looks",
        0.1,
        lambda r: _look_fails(r, only_above=False),
    ),
    Statement(
        f"… measured once, by {N_SAMPLE} random items",
        0.1,
        lambda r: _sample_fails(r, only_above=False),
    ),
    Statement(
        "*With 95 % confidence the error is at most*: kept sample, at all looks",
        0.05,
        lambda r: _look_fails(r, only_above=True),
    ),
    Statement(
        f"… {N_SAMPLE} random items, once", 0.05, lambda r: _sample_fails(r, only_above=True)
    ),
    Statement("*Your goal is reached*: kept sample, at all looks", 0.05, _goal_fails),
    Statement(
        "The 90 % interval holds a class's share: from the kept sample",
        0.1,
        _share_fails("audit_shares"),
    ),
    Statement(f"… from {N_SAMPLE} random items", 0.1, _share_fails("shares")),
    Statement("The 90 % interval holds an annotator's error", 0.1, _annotator_fails),
    Statement("*More labels hardly change the model*", None, _stop_fails),
)
INTERVAL = STATEMENTS[0]
AUDIT = STATEMENTS[4]


# -- rates


@dataclass(frozen=True)
class Rate:
    """A mean over n runs and its Monte-Carlo standard error, as shares."""

    mean: float
    error: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Rate | None":
        """Estimate a rate; None without a value.

        Where all runs agree, the error is that of one further failure among two further runs.
        """
        rates = [value for value in values if value is not None]
        n = len(rates)
        if not n:
            return None
        mean = float(np.mean(rates))
        deviation = float(np.std(rates, ddof=1)) if n > 1 else 0.0
        if deviation == 0.0:
            shrunk = (mean * n + 1.0) / (n + 2.0)
            deviation = (shrunk * (1.0 - shrunk)) ** 0.5
        return cls(mean, deviation / n**0.5, n)

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * self.error:.1f}"


def _select(records: list[Record], model: str, strategy: str | None = None) -> list[Record]:
    return [
        record
        for record in records
        if record["run"][1] == model and strategy in (None, record["run"][2])
    ]


def _rate(records: list[Record], statement: Statement) -> str:
    rate = Rate.of(statement.failures(record) for record in records)
    if rate is None:
        return "none"
    return _marked(rate, statement.promise)


def _marked(rate: Rate, promise: float | None) -> str:
    """Write a rate, in bold where it is more than two standard errors above the promise."""
    is_broken = promise is not None and rate.mean > promise + 2.0 * rate.error
    return f"**{rate}**" if is_broken else str(rate)


# -- the parts of the page


def _summary(records: list[Record]) -> Iterator[str]:
    rates = {
        (statement.name, model): Rate.of(map(statement.failures, _select(records, model)))
        for statement in STATEMENTS
        for model in MODELS
        if statement.promise is not None
    }
    promises = {s.name: s.promise for s in STATEMENTS if s.promise is not None}
    n_broken = sum(
        rate is not None and rate.mean > promises[name] + 2.0 * rate.error
        for (name, _), rate in rates.items()
    )
    n_known = sum(rate is not None for rate in rates.values())
    summary = "In sessions on real data no statement fails measurably more often than promised"
    if n_broken:
        summary = f"{n_broken} of {n_known} rates are measurably higher than promised"
    exceptions = [
        f"{MODEL_NAMES[model]} with {STRATEGY_NAMES[strategy]} labels"
        for model in MODELS
        for strategy in STRATEGIES
        if "**" in _rate(_select(records, model, strategy), INTERVAL)
    ]
    if exceptions:
        summary += f"; by strategy the expected error does: {', '.join(exceptions)}"
    yield (
        f"**{summary}; made sessions tell more.** "
        "Bold cells below are more than two standard errors above the promise. These are averages: "
        "on a single dataset an expected error can be far off, and only a random sample tells. "
        "[Measure the error](../howto/measure.md) says how to label one. "
        f"{_closest(rates, promises)}"
    )


def _closest(rates: dict[tuple[str, str], Rate | None], promises: dict[str, float]) -> str:
    """Name the rate that is most standard errors above its promise; nothing if none is above."""
    excess = {
        (name, model): (rate.mean - promises[name]) / rate.error
        for (name, model), rate in rates.items()
        if rate is not None and rate.mean > promises[name]
    }
    if not excess:
        return ""
    name, model = max(excess, key=lambda key: excess[key])
    return (
        f"The rate farthest above its promise: *{_in_full(name)}* fails with the "
        f"{MODEL_NAMES[model]} in {rates[name, model]} %, and may in {100 * promises[name]:.0f}."
    )


def _in_full(name: str) -> str:
    """A statement's name with the words for which … stands, without asterisks.

    >>> _in_full("… from 60 random items").partition(":")[0]
    "The 90 % interval holds a class's share"
    """
    names = [statement.name for statement in STATEMENTS]
    heads = [other for other in names[: names.index(name) + 1] if not other.startswith("…")]
    return name.replace("…", heads[-1].partition(":")[0] + ":").replace("*", "")


def _made_sessions() -> Iterator[str]:
    """The table of the study ``statements``, from its record."""
    lines = (STATEMENTS_STUDY / "record.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    yield "## Made sessions that were chosen to break a statement"
    yield ""
    yield (
        f"**{verdict(records)}** Labels and predictions are drawn, no model is fitted, so each "
        "cell has many sessions; the settings are worst cases, not averages. [The study]"
        "(../../studies/error_estimates/statements/README.md) lists what else was tried."
    )
    yield ""
    yield from statement_table(records)


def _every_statement(records: list[Record]) -> Iterator[str]:
    yield "## Sessions with models on real data"
    yield ""
    yield (
        "Few sessions: a rate of 5 % has a standard error of about 3, so a doubled rate would "
        "mostly not be bold here. The rows on kept samples and class shares were recorded with "
        "narrower limits (prediction-powered inference), which failed in made sessions and have "
        "been replaced."
    )
    yield ""
    counts = ", ".join(f"{len(_select(records, m))} with the {MODEL_NAMES[m]}" for m in MODELS)
    goals = ", ".join(f"{100 * goal:.0f}" for goal in GOALS)
    yield (
        "Failures in % of the statements, ± the Monte-Carlo standard error over sessions "
        f"({counts}). *At all looks*: a session counts as failed if any look does. "
        f"*Goal*: an error below any of {goals} % is said to be reached "
        "and is not. Of the last row nothing is promised: it counts how often the log loss on new "
        f"items fell by more than {100 * MARKED_GAIN:.0f} % with the next batch all the same. "
        "*None*: there was no such statement, or it was not measured."
    )
    yield ""
    yield "| statement | may fail | " + " | ".join(MODEL_NAMES[m] for m in MODELS) + " |"
    yield "| --- | ---: |" + " ---: |" * len(MODELS)
    for statement in STATEMENTS:
        promise = "" if statement.promise is None else f"{100 * statement.promise:.0f}"
        cells = [_rate(_select(records, model), statement) for model in MODELS]
        yield f"| {statement.name} | {promise} | {' | '.join(cells)} |"


def _expected_errors(records: list[Record]) -> Iterator[str]:
    yield "## How far off is the expected error?"
    yield ""
    yield (
        "Without a random sample. *Bias* and *MAE*: mean and mean absolute value of expected - "
        "true, in percentage points; *fails* and *width*: of the 90 % interval, in % and in "
        "points. Narrower intervals would fail more often: see [width against coverage]"
        "(../../studies/error_estimates/README.md#the-constants-of-the-interval)."
    )
    yield ""
    yield "| model | labels by | labels | bias | MAE | fails | width |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for model in MODELS:
        for strategy in STRATEGIES:
            sessions = _select(records, model, strategy)
            for n_labels in ("100", "250"):
                cells = _expected_cells([values["at"][n_labels] for values in sessions])
                if sessions:
                    names = f"{MODEL_NAMES[model]} | {STRATEGY_NAMES[strategy]} | {n_labels}"
                    yield f"| {names} | {cells} |"


def _expected_cells(checkpoints: list[Record]) -> str:
    if not checkpoints:
        return ""
    off = [100 * (values["expected"][0] - values["real"]) for values in checkpoints]
    fails = Rate.of(float(_outside(values["expected"], values["real"])) for values in checkpoints)
    width = np.mean(
        [100 * (values["expected"][2] - values["expected"][1]) for values in checkpoints]
    )
    bias = f"{np.mean(off):+.1f} ± {np.std(off) / len(off) ** 0.5:.1f}"
    assert fails is not None
    marked = _marked(fails, INTERVAL.promise)
    return f"{bias} | {np.mean(np.abs(off)):.1f} | {marked} | {width:.1f}"


def _by_set(records: list[Record]) -> Iterator[str]:
    yield "## By dataset"
    yield ""
    yield (
        "*MAE* of the expected error in points, and failures of its 90 % interval and of the "
        "kept sample's upper limit in %, over all strategies. The report's constants were tuned on "
        "the sets marked so; the others took no part, except those of the fine-tuned encoder with "
        "random labels. With few sessions for each set, one that "
        "fails by chance is to be expected."
    )
    yield ""
    kinds = ("MAE", "interval", "sample")
    columns = [f"{MODEL_NAMES[model]}: {kind}" for model in MODELS for kind in kinds]
    yield "| data | tuned on | " + " | ".join(columns) + " |"
    yield "| --- | --- |" + " ---: |" * len(columns)
    for data, title in {**ROWS, **TEXTS}.items():
        sessions = [record for record in records if record["run"][0] == data]
        cells = [cell for model in MODELS for cell in _set_cells(_select(sessions, model))]
        mark = "yes" if data in TUNED_ON else ""
        if sessions:
            yield f"| {title} | {mark} | {' | '.join(cells)} |"


def _set_cells(records: list[Record]) -> list[str]:
    if not records:
        return [""] * 3
    checkpoints = [values for record in records for values in record["at"].values()]
    off = np.mean([abs(values["expected"][0] - values["real"]) for values in checkpoints])
    rates = [Rate.of(map(statement.failures, records)) for statement in (INTERVAL, AUDIT)]
    return [
        f"{100 * off:.1f}",
        *("" if rate is None else f"{100 * rate.mean:.0f}" for rate in rates),
    ]


def _method(records: list[Record]) -> Iterator[str]:
    n_seeds = len({record["run"][3] for record in records})
    n_annotators = sum(bool(record["annotators"]) for record in records)
    yield "## What was done"
    yield ""
    yield (
        f"Each session labels some of 1,500 items, in batches: a kept sample of {N_AUDIT} and "
        f"250 other labels, of {len({record['run'][0] for record in records})} sets of tables, "
        f"texts and images with two to ten classes, up to {n_seeds} seeds. Statements are "
        "compared with the truth at 100 and 250 labels: errors on items that no learner has seen, "
        "samples and shares of the whole pool. The annotators are simulated: three, wrong in 5, 15 "
        "and 30 % of their answers, evenly over the other classes; people's errors are not so "
        "even. The encoder, all-MiniLM-L6-v2, is fine-tuned at 100 and at 250 labels."
    )
    yield ""
    yield (
        "Items that trained the fine-tuned encoder count with held-out predictions in the expected "
        "error. Encoders of the folds are less sure of new items than the encoder of all labels, "
        "so with random labels the temperature is raised. By how much was learnt from the same "
        "texts and seeds: these rates do not confirm it. "
        f"An annotator's error was measured in {n_annotators} sessions."
    )
    yield ""
    yield (
        "Not covered: samples drawn again and again until one pleases, items that annotators skip "
        "because of what they show, near-duplicates, new items from another source than the pool, "
        "and tasks other than one class for each item."
    )
    yield ""
    yield (
        "Written by `python studies error_estimates.promises` "
        "([the study](../../studies/error_estimates/README.md)); do not edit."
    )

"""The specification of a run: its names and numbers, with a key that never changes.

Nothing here loads a model, so that `bench status` and `bench report` start at once.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self, TypeVar

from parbals.errors import InputError
from parbals.validate import check_prior_scale

__all__ = ["ALL_CLASSES", "PAPER", "Budget", "Run", "Settings", "Shard", "split_reference"]

ALL_CLASSES = "*"
"""Stands for all classes, where a positive class may be named."""
_PARTICLES = "smc"
_SCALE = 1.0
_INFERENCES = (_PARTICLES, "auto", "ep", "nuts")
_Item = TypeVar("_Item")
_SHARD = re.compile(r"(\d{1,6})/(\d{1,6})")
_BUDGET = re.compile(r"\s*(\d+)\s*\+\s*(\d+)\s*[x×*]\s*(\d+)\s*")


@dataclass(frozen=True, order=True)
class Budget:
    """``initial`` random labels, then ``rounds`` batches of ``batch``; written "100+10x20"."""

    initial: int
    rounds: int
    batch: int

    def __post_init__(self) -> None:
        if min(self.initial, self.rounds, self.batch) < 1:
            raise InputError(
                f"The budget {self} has a part below 1; a budget looks like 100+10x20."
            )

    @classmethod
    def parse(cls, text: "str | Budget") -> "Budget":
        """Read "100+10x20"; spaces and × are fine."""
        if isinstance(text, Budget):
            return text
        match = _BUDGET.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InputError(
                f"{text!r} is not a budget; write initial+roundsxbatch, for example 100+10x20."
            )
        return cls(*map(int, match.groups()))

    def __str__(self) -> str:
        return f"{self.initial}+{self.rounds}x{self.batch}"

    @property
    def spelt(self) -> str:
        """As people write it: 100 + 10×20."""
        return f"{self.initial} + {self.rounds}×{self.batch}"

    @property
    def total(self) -> int:
        return self.initial + self.rounds * self.batch

    @property
    def n_labels(self) -> tuple[int, ...]:
        """How many labels there are after the initial set and after every round."""
        return tuple(self.initial + i * self.batch for i in range(self.rounds + 1))


@dataclass(frozen=True)
class Settings:
    """Sizes, model and loss of a run; the defaults are the paper's.

    ``inference`` is the posterior's: particles as the paper's samples, or "ep" or "auto" as in
    :class:`parbals.BayesianLogisticRegression`; ``prior_scale`` is 1 as in the paper, or "auto".
    ``departures`` are those of the authors' code, see :mod:`parbals_bench.run.authors`; ``model``
    is another one than ours, see :mod:`parbals_bench.run.own_models`. ``metric`` is recorded beside
    the others, see :mod:`parbals_bench.run.metrics`; ``metric_is_loss`` says that lower is better.
    """

    n_candidates: int = 10_000
    n_targets: int = 1_000
    n_samples: int = 400
    n_universes: int = 10
    loss: str = "log"
    inference: str = _PARTICLES
    prior_scale: float | str = _SCALE
    departures: str = ""
    model: str = ""
    metric: str = ""
    metric_is_loss: bool = False

    def __post_init__(self) -> None:
        for name in ("n_candidates", "n_targets", "n_samples", "n_universes"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} is {value!r}; it must be a whole number of at least 1.")
        if self.loss not in ("log", "error"):
            raise InputError(f"loss is {self.loss!r}; choose log or error.")
        if self.inference not in _INFERENCES:
            choices = ", ".join(_INFERENCES)
            raise InputError(f"inference is {self.inference!r}; choose one of: {choices}.")
        check_prior_scale(self.prior_scale)
        if not isinstance(self.model, str):
            raise InputError(f"model is {self.model!r}; write module:name in quotes.")
        if not isinstance(self.metric, str):
            raise InputError(f"metric is {self.metric!r}; write module:name in quotes.")
        if not isinstance(self.metric_is_loss, bool):
            raise InputError(f"metric_is_loss is {self.metric_is_loss!r}; write true or false.")
        if self.model and self.departures:
            raise InputError("model and departures are both set; the authors' code has one model.")
        if self.departures:
            from parbals_bench.run.authors import check_departures  # which loads strategies

            object.__setattr__(self, "departures", check_departures(self.departures))

    @property
    def in_words(self) -> str:
        text = (
            f"{self.n_candidates:,} candidates and {self.n_targets:,} targets a round, "
            f"{self.n_samples:,} posterior samples, {self.n_universes} universes, {self.loss} loss"
        )
        if self.inference != _PARTICLES:
            text += f", inference {self.inference}"
        if self.prior_scale != _SCALE:
            text += f", prior scale {self.prior_scale}"
        if self.model:
            text += f", model {self.model}"
        if self.departures:
            text += f"; as the authors' code: {self.departures}"
        return text

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the paper's model is left out, so that older keys stay valid."""
        omitted = {
            "inference": _PARTICLES,
            "prior_scale": _SCALE,
            "departures": "",
            "model": "",
            "metric": "",
            "metric_is_loss": False,
        }
        return {name: x for name, x in asdict(self).items() if omitted.get(name) != x}


PAPER = Settings()
_SYMBOLS = {
    "n_universes": "m",
    "n_samples": "K",
    "n_candidates": "N",
    "n_targets": "M",
    "loss": "loss",
    "inference": "inference",
    "prior_scale": "prior scale",
    "departures": "as the authors",
    "model": "model",
}


@dataclass(frozen=True)
class Run:
    """One run: everything that its result depends on, except the data itself.

    ``positive`` is the class that is set against all others; ``None`` means the dataset's default.

    >>> run = Run("ag-news", Budget.parse("100+10x20"), "parbals-epig", seed=0, positive="Sports")
    >>> run.reference, run.budget.total
    ('ag-news:Sports', 300)
    """

    dataset: str
    budget: Budget
    strategy: str
    seed: int
    positive: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = PAPER

    @property
    def key(self) -> str:
        """Two runs have the same key exactly if they must have the same result."""
        return _digest([*self._identity(), self.seed])

    @property
    def cell(self) -> str:
        """A file name for the runs that differ in their seed alone, readable and unique."""
        names = (self.dataset, self.positive, str(self.budget), self.strategy)
        readable = "_".join(re.sub(r"[^A-Za-z0-9+.-]+", "-", name) for name in names if name)
        return f"{readable[:120]}_{_digest(self._identity())[:8]}"

    @property
    def reference(self) -> str:
        """The name under which the loader finds the data: "ag-news" or "ag-news:Sports"."""
        return self.dataset if self.positive is None else f"{self.dataset}:{self.positive}"

    def variant(self, baseline: Settings) -> str:
        """Settings and options that differ from the baseline, such as "m = 5"; "" if none do."""
        settings = asdict(self.settings)
        defaults = asdict(baseline)
        changes = [
            f"{symbol} = {settings[name]}"
            for name, symbol in _SYMBOLS.items()
            if settings[name] != defaults[name]
        ]
        changes += [f"{name} = {value}" for name, value in sorted(self.options.items())]
        return ", ".join(changes)

    def values_of(self, variants: Iterable[str]) -> str:
        """This run's values of the settings that the variants change: "m = 10" beside "m = 5"."""
        changes = [change for variant in variants for change in variant.split(", ")]
        changed_symbols = {change.partition(" = ")[0] for change in changes}
        settings = asdict(self.settings)
        values = [
            f"{symbol} = {settings[name]}"
            for name, symbol in _SYMBOLS.items()
            if symbol in changed_symbols
        ]
        return ", ".join(values) or "default"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "dataset": self.dataset,
            "positive": self.positive,
            "budget": str(self.budget),
            "strategy": self.strategy,
            "options": dict(sorted(self.options.items())),
            "settings": self.settings.as_dict(),
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a run from the plain values of :meth:`as_dict`."""
        arguments = dict(values)
        arguments["budget"] = Budget.parse(arguments["budget"])
        arguments["settings"] = Settings(**arguments["settings"])
        return cls(**arguments)

    def _identity(self) -> list[Any]:
        *identity, _ = self.as_dict().values()  # all but the seed
        return identity


@dataclass(frozen=True)
class Shard:
    """One of ``total`` parts of a suite's runs, counted from 1; written "3/20".

    >>> Shard.parse("2/3").of("abcdefgh")
    ('b', 'e', 'h')
    """

    number: int
    total: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        match = _SHARD.fullmatch(text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise InputError(f"{text!r} is not a shard; write number/total, from 1/20 to 20/20.")
        return cls(int(match[1]), int(match[2]))

    @property
    def name(self) -> str:
        """As file names have it: "3-of-20"."""
        return f"{self.number}-of-{self.total}"

    def of(self, runs: Sequence[_Item]) -> tuple[_Item, ...]:
        """Every ``total``-th run: all shards have datasets and strategies in like shares."""
        return tuple(runs[self.number - 1 :: self.total])


def split_reference(reference: str) -> tuple[str, str | None]:
    """ "ag-news:Sports" → ("ag-news", "Sports"); "ag-news" → ("ag-news", None)."""
    name, colon, positive = reference.partition(":")
    if not name or (colon and not positive):
        raise InputError(
            f"{reference!r} does not name a dataset; write NAME, or NAME:CLASS for one class "
            "against the others."
        )
    return name, positive or None


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

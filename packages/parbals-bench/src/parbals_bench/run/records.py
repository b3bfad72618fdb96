"""The record of one run as a line of JSON with a checksum."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parbals.errors import InputError

from parbals_bench.run.spec import Run

__all__ = ["RunRecord", "read_line", "record_of", "write_line"]

_CHECK = ',"check":"'


@dataclass(frozen=True)
class RunRecord:
    """The record of one run.

    Attributes:
        run: what was run.
        metrics: one number per metric after the initial set and after every round, on the test set.
        initial: pool positions of the initial set.
        chosen: pool positions of every batch, in the order of choice.
        seconds: per stage (fit, predict, select), one number each time the stage ran.
        versions: versions of the libraries, and the device.
        data: digest of the features and labels, which may change under one dataset name.
        inference: inference method of each fit, "smc" or "ep"; () in older records.
        notes: warnings of the model and the strategy, each once.
    """

    run: Run
    metrics: Mapping[str, tuple[float, ...]]
    initial: tuple[int, ...]
    chosen: tuple[tuple[int, ...], ...]
    seconds: Mapping[str, tuple[float, ...]]
    versions: Mapping[str, str]
    data: str
    inference: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.run.key

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "run": self.run.as_dict()}


def write_line(record: RunRecord) -> str:
    """One compact line without a line feed; its checksum covers everything before it."""
    text = json.dumps(record.as_dict(), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text = text.removesuffix("}")
    return f'{text}{_CHECK}{_checksum(text)}"}}'


def read_line(line: str) -> RunRecord:
    """Parse a line; one that was truncated or changed is refused."""
    text, _, check = line.rstrip("\n").rpartition(_CHECK)
    if check != f'{_checksum(text)}"}}':
        raise InputError("A line of results is damaged: its check does not fit.")
    return record_of(json.loads(text + "}"))


def record_of(values: Mapping[str, Any]) -> RunRecord:
    """Build a record from the plain values of :meth:`RunRecord.as_dict`."""
    try:
        record = RunRecord(
            run=Run.from_dict(values["run"]),
            metrics={name: tuple(map(float, x)) for name, x in values["metrics"].items()},
            initial=tuple(values["initial"]),
            chosen=tuple(tuple(batch) for batch in values["chosen"]),
            seconds={name: tuple(map(float, x)) for name, x in values["seconds"].items()},
            versions=values["versions"],
            data=values["data"],
            inference=tuple(values.get("inference", ())),
            notes=tuple(values["notes"]),
        )
        if {len(x) for x in record.metrics.values()} != {record.run.budget.rounds + 1}:
            raise ValueError("a metric does not have one number for every round")
        return record
    except (KeyError, TypeError, AttributeError, ValueError, InputError) as error:
        raise InputError(
            f"A line of results was written by another version of parbals ({error})."
        ) from None


def _checksum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

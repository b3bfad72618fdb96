"""Runs every test suite, one after the other, and writes down what each of them did.

    python3 .ci/suites.py                what CI runs: long suites in a dose
    python3 .ci/suites.py docs sizes     these suites alone
    python3 .ci/suites.py --everything   full counts, and the suites that need PyTorch's encoders
    python3 .ci/suites.py --table        runs nothing; writes the table of the record again

Each suite is a target of the Makefile. A test that fails is run once more, alone: if it passes
then, it is listed as flaky and does not stop the run. The table at the end has a row a suite; the
same rows are kept in ``.ci/record.json``, and docs/reference/suites.md shows them.

Only the standard library is used, because this runs before anything is installed.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / ".ci" / "record.json"
PAGE = ROOT / "docs" / "reference" / "suites.md"
TABLE_START = "<!-- table: written by .ci/suites.py -->\n"
TABLE_END = "<!-- end of table -->\n"
TIME_LIMIT = 40 * 60  # seconds for a suite of CI: one that hangs must not take the others along
DOSE = "0.05"


@dataclass(frozen=True)
class Suite:
    """A target of the Makefile, and what it proves when it passes."""

    target: str
    proves: str
    in_ci: bool = True
    dose: bool = False  # CI runs a share of its repetitions and parameter sets
    arguments: tuple[str, ...] = ()
    ci_arguments: tuple[str, ...] = ()


SUITES = (
    Suite("test", "Lint, types, import layers and the fast tests: what a contributor runs."),
    Suite("test-full", "Slower variants of the fast tests: the second half of `make test-all`."),
    Suite("test-browser", "The labelling page in Chromium: one person, several, phone, keyboard."),
    Suite("test-integrations", "scikit-activeml's own suite, modAL, baal, PyTorch models, MLflow."),
    Suite("test-label-studio", "A real Label Studio server: tasks, annotations, interruptions."),
    Suite("test-deploy", "nginx, Caddy and systemd with the files under `deploy/`."),
    Suite("test-lowest", "The lowest versions of every dependency that is allowed.", dose=True),
    Suite(
        "test-pythons",
        "The built wheels on each Python that can be had, newest and lowest versions.",
        dose=True,
        ci_arguments=("VERSIONS=highest",),  # test-lowest has the lowest
    ),
    Suite(
        "test-statistics",
        "Samplers against long chains, calibration, and how often statements fail.",
        dose=True,
    ),
    Suite("test-faults", "Kills, full disks, flipped bytes, crowds, bad numbers.", dose=True),
    Suite("sizes", "Each package installs alone, stays light, and works."),
    Suite("docs", "The site builds without a warning."),
    Suite("test-encoders", "Encoders and fine-tuning with PyTorch.", in_ci=False),
    Suite(
        "soak",
        "Twenty people, kills, full disks, clock jumps: no label lost or doubled.",
        in_ci=False,
        arguments=("MINUTES=5",),
    ),
)


@dataclass
class Outcome:
    """What one suite did."""

    suite: str
    commit: str
    date: str
    dose: bool
    passed: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)
    exit_code: int = 0
    seconds: int = 0

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", help="targets to run; by default all of CI's")
    parser.add_argument("--everything", action="store_true", help="full counts, and all suites")
    parser.add_argument("--table", action="store_true", help="run nothing, write the table again")
    options = parser.parse_args()
    if options.table:
        write_page(read_record())
        return 0
    unknown = set(options.suites) - {suite.target for suite in SUITES}
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    chosen = [
        suite
        for suite in SUITES
        if suite.target in options.suites
        or (not options.suites and (suite.in_ci or options.everything))
    ]
    outcomes = []
    for suite in chosen:
        outcomes.append(run_suite(suite, options.everything))
        keep(outcomes[-1])
    print(as_text(outcomes))
    for outcome in outcomes:
        for test in outcome.flaky:
            print(f"FLAKY: {test} failed in {outcome.suite} and passed alone")
        for test in outcome.failed:
            print(f"FAILED: {test} in {outcome.suite}")
        if outcome.exit_code and not outcome.failed:
            print(f"FAILED: make {outcome.suite} ended with {outcome.exit_code}")
    n_failed = sum(max(len(outcome.failed), not outcome.ok) for outcome in outcomes)
    n_skipped = sum(outcome.skipped for outcome in outcomes)
    n_passed = sum(outcome.passed for outcome in outcomes)
    print(f"{n_passed} passed, {n_failed} failed, {n_skipped} skipped")
    return int(n_failed > 0)


def run_suite(suite: Suite, full_counts: bool) -> Outcome:
    """Run one target, then each test of it that failed once more, alone."""
    dose = suite.dose and not full_counts
    outcome = Outcome(suite.target, commit(), f"{datetime.now(UTC):%Y-%m-%d}", dose)
    print(f"\n=== make {suite.target}: {suite.proves}", flush=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.jsonl"
        environment = os.environ | {"PARBALS_TEST_RECORD": str(record)}
        if dose:
            environment["PARBALS_DOSE"] = DOSE
        arguments = suite.arguments if full_counts else (*suite.arguments, *suite.ci_arguments)
        command = ["make", "--no-print-directory", suite.target, *arguments]
        limit = None if full_counts else TIME_LIMIT
        outcome.exit_code = run(command, environment, limit)
        sessions = read_lines(record)
    outcome.passed = sum(session["passed"] for session in sessions)
    outcome.skipped = sum(session["skipped"] for session in sessions)
    for session in sessions:
        repeat_failures(session, outcome)
    outcome.seconds = round(time.monotonic() - start)
    return outcome


def repeat_failures(session: dict, outcome: Outcome) -> None:
    """Run each failed test of a pytest session alone: flaky if it passes then."""
    for test in session["failures"]:
        print(f"\n--- once more, alone: {test}", flush=True)
        command = [session["python"], "-m", "pytest", "-q", *session["options"], test]
        environment = os.environ | session["environment"]
        if run(command, environment, TIME_LIMIT) == 0:
            outcome.flaky.append(test)
            outcome.passed += 1
        else:
            outcome.failed.append(test)


def run(command: list[str], environment: dict[str, str], limit: float | None) -> int:
    """The exit code of a command, which is ended with all its processes after ``limit`` seconds."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command)} was ended after {limit} seconds", flush=True)
        return 124
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def read_lines(record: Path) -> list[dict]:
    if not record.exists():
        return []
    return [json.loads(line) for line in record.read_text("utf-8").splitlines()]


def commit() -> str:
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def keep(outcome: Outcome) -> None:
    """Replace the suite's row in the record, and the table of the page."""
    rows = read_record()
    rows[outcome.suite] = asdict(outcome)
    rows = {suite.target: rows[suite.target] for suite in SUITES if suite.target in rows}
    RECORD.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    write_page(rows)


def read_record() -> dict[str, dict]:
    """The latest outcome of each suite that ever ran, by its target."""
    return json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}


def write_page(rows: dict[str, dict]) -> None:
    """Replace the table of the page."""
    before, rest = PAGE.read_text("utf-8").split(TABLE_START)
    after = rest.split(TABLE_END)[1]
    PAGE.write_text(before + TABLE_START + as_markdown(rows) + TABLE_END + after, "utf-8")


def as_markdown(rows: dict[str, dict]) -> str:
    """The table of the documentation: a row a suite, those that never ran too."""
    lines = [
        "| suite | what it proves | in CI | last run | passed | failed | flaky | minutes |\n",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: |\n",
    ]
    for suite in SUITES:
        share = "a dose" if suite.dose else "whole"
        in_ci = share if suite.in_ci else "no"
        start = f"| `make {suite.target}` | {suite.proves} | {in_ci} | "
        row = rows.get(suite.target)
        if row is None:
            lines.append(start + "never | | | | |\n")
            continue
        counts = [row["passed"], len(row["failed"]) or row["exit_code"], len(row["flaky"])]
        when = f"{row['date']}, {row['commit']}" + (", a dose" if row["dose"] else "")
        cells = [when, *counts, f"{row['seconds'] / 60:.1f}"]
        lines.append(start + " | ".join(map(str, cells)) + " |\n")
    return "".join(lines)


def as_text(outcomes: list[Outcome]) -> str:
    """The table that CI prints."""
    header = f"{'suite':<20} {'commit':<9} {'passed':>7} {'failed':>7} {'flaky':>6} "
    lines = ["", header + f"{'skipped':>8} {'min:s':>7}"]
    for outcome in outcomes:
        n_failed = max(len(outcome.failed), not outcome.ok)
        minutes, seconds = divmod(outcome.seconds, 60)
        lines.append(
            f"{outcome.suite:<20} {outcome.commit:<9} {outcome.passed:>7} {n_failed:>7} "
            f"{len(outcome.flaky):>6} {outcome.skipped:>8} {minutes:>4}:{seconds:02}"
        )
    minutes, seconds = divmod(sum(outcome.seconds for outcome in outcomes), 60)
    lines.append(f"{'all':<20} {minutes:>57}:{seconds:02}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

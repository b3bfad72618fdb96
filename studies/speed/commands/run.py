"""How many CPU seconds do commands take, beside another commit?

    python studies speed.commands                # this tree
    python studies speed.commands --before REF   # and another commit, measured in turn
    python studies speed.commands --quick        # a small project, to see that it runs

A project of 2,000 made-up texts with four classes and 280 labels is made once; every command works
on a copy of it, in a process of its own with one thread. The least of several repeats is shown:
other programs only add time. `next` of both trees must choose the same items; the page says whether
they are the same. Writes README.md; a minute.
"""

import argparse
import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from lib.folders import STUDIES
from lib.report import machine
from speed.trees import checked_out, sources

FOLDER = Path(__file__).parent
ROOT = STUDIES.parent
CLASSES = ("world", "sports", "business", "science")
SIZES = {"items": 2_000, "labels": 280, "repeats": 5}
QUICK = {"items": 200, "labels": 40, "repeats": 1}
BATCH = 20
GOALS = {"status": 0.3, "tell": 1.0, "next": 1.0}
WORDS = 4_000
LENGTH = 30
TITLE = """# How many CPU seconds do commands take?

A project of {items:,} made-up texts with four classes and {labels} labels, features by the encoder
`words`. Each command in a process of its own with one thread; the least CPU seconds of {repeats}
repeats.

"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", metavar="REF", help="a commit to compare with")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the page")
    parser.add_argument("--quick", action="store_true", help="a small project, once")
    options = parser.parse_args()
    sizes = QUICK if options.quick else SIZES
    with tempfile.TemporaryDirectory(prefix="parbals-commands-") as temporary:
        folder = Path(temporary)
        trees = {"now": sources(ROOT)}
        if options.before:
            trees["before"] = sources(checked_out(options.before, folder / "before"))
        make_project(folder, sizes, trees["now"])
        seconds, batches = measured(folder, trees, sizes["repeats"])
    text = page(seconds, batches, sizes, options.before)
    (options.out / "README.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


def make_project(folder: Path, sizes: dict[str, int], sources: list[Path]) -> None:
    """A project with labels and a report, and a file of a batch's labels."""
    texts, labels = made_up_texts(sizes["items"])
    write(folder / "texts.csv", ["id", "text"], enumerate(texts))
    order = np.random.default_rng(1).permutation(len(texts))
    n_labels = sizes["labels"]
    for name, chosen in (("known", order[:n_labels]), ("batch", order[n_labels:][:BATCH])):
        write(folder / f"{name}.csv", ["id", "label"], ((i, labels[i]) for i in chosen))
    project = str(folder / "project")
    classes = ",".join(CLASSES)
    texts_of = ["--text", "text", "--encoder", "words", "--classes", classes]
    run(["init", project, str(folder / "texts.csv"), *texts_of], sources)
    run(["tell", project, str(folder / "known.csv")], sources)


def made_up_texts(n_texts: int) -> tuple[list[str], list[str]]:
    """Texts whose words are common or rare as in a language, and differ by class."""
    generator = np.random.default_rng(0)
    common = 1.0 / np.arange(1, WORDS + 1)
    by_class = common * generator.gamma(1.0, size=(len(CLASSES), WORDS))
    by_class /= by_class.sum(axis=1, keepdims=True)
    numbers = generator.integers(len(CLASSES), size=n_texts)
    texts = [
        " ".join(f"word{word}" for word in generator.choice(WORDS, LENGTH, p=by_class[number]))
        for number in numbers
    ]
    return texts, [CLASSES[number] for number in numbers]


def write(path: Path, header: list[str], rows: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def measured(
    folder: Path, trees: dict[str, list[Path]], n_repeats: int
) -> tuple[dict[tuple[str, str], float], dict[str, list[str]]]:
    """The least CPU seconds of every command and tree, and the items that each tree chooses."""
    seconds: dict[tuple[str, str], float] = {}
    batches: dict[str, list[str]] = {}
    copy = folder / "copy"
    commands = {
        "--version": ["--version"],
        "status": ["status", str(copy), "--json"],
        "tell": ["tell", str(copy), str(folder / "batch.csv"), "--json"],
        "next": ["next", str(copy), "-n", str(BATCH), "--json"],
    }
    for _ in range(n_repeats):
        for tree, sources in trees.items():
            for name, arguments in commands.items():
                shutil.copytree(folder / "project", copy)
                spent, output = run(arguments, sources)
                shutil.rmtree(copy)
                seconds[tree, name] = min(spent, seconds.get((tree, name), np.inf))
                if name == "next":
                    batches[tree] = json.loads(output)["ids"]
    return seconds, batches


def run(arguments: list[str], sources: list[Path]) -> tuple[float, str]:
    """CPU seconds and output of one command by the code in these folders."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sources))}
    environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # files are compiled once, as on a user's disk
    command = [sys.executable, "-m", "parbals", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, process.stdout


def page(
    seconds: dict[tuple[str, str], float],
    batches: dict[str, list[str]],
    sizes: dict[str, int],
    before: str | None,
) -> str:
    """The table of all commands."""
    text = TITLE.format(**sizes)
    text += "\n".join(rows(seconds, before is not None)) + "\n"
    if before:
        is_same = batches["now"] == batches["before"]
        text += f"\n`next` chose {'the same items as' if is_same else 'other items than'} before.\n"
    facts = machine(1)
    command = "python studies speed.commands" + (f" --before {before}" if before else "")
    text += f"\n{facts['processor']}, one thread, {facts['date']}, commit {facts['commit']},"
    return text + f" `{command}`; do not edit.\n"


def rows(seconds: dict[tuple[str, str], float], compares: bool) -> Iterator[str]:
    columns = ["command", "CPU s", "goal"]
    if compares:
        columns = ["command", "before, CPU s", "CPU s", "ratio", "goal"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for name in ("--version", *GOALS):
        now = seconds["now", name]
        cells = [f"`{name}`"]
        if compares:
            cells += [f"{seconds['before', name]:.2f}"]
        cells += [f"{now:.2f}"]
        if compares:
            cells += [f"{now / seconds['before', name]:.2f}"]
        cells += [f"≤ {GOALS[name]:g}" if name in GOALS else ""]
        yield f"| {' | '.join(cells)} |"

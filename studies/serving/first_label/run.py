"""How long does it take from `pip install` to the first label, by the README's commands?

    python studies serving.first_label

A new virtual environment in a new folder, pip without its cache, the README's own lines read from
the README (install, init, serve), a thousand messages that the model has never seen. A scripted
person opens the printed link and gives one label as the page does. It prints one JSON record:
seconds of each step, and their sum; the exit code is 1 where that is more than five minutes.
"""

import argparse
import csv
import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lib.folders import ROOT
from serving.waiting.run import Client

DATA = ROOT / "packages/parbals-bench/src/parbals_bench/datasets/data/SMSSpamCollection.tsv.gz"
LIMIT = 300.0


def main() -> int:
    """Walk the README's way, and print how long each step took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=1_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        truth = write_messages(workspace / "messages.csv", options.items)
        record = walk(workspace, truth)
    record["total"] = round(sum(record.values()), 1)
    print(json.dumps({"items": options.items, **record}))
    return int(record["total"] > LIMIT)


def readme_lines() -> tuple[list[str], list[str], list[str]]:
    """The words of the three commands, as the README prints them."""
    text = (ROOT / "README.md").read_text("utf-8")
    results = []
    for start in (r"pip install \./parbals \./parbals-label ", r"parbals init ", r"parbals serve "):
        line = re.search(rf"^{start}.*$", text, re.MULTILINE)
        if line is None:
            raise SystemExit(f"The README has no line that begins with {start}.")
        results.append(shlex.split(line[0], comments=True))
    return results[0], results[1], results[2]


def write_messages(path: Path, n_items: int) -> list[str]:
    """Real messages without their labels, which come back."""
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file][:n_items]
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["message"], *([text] for _, text in pairs)])
    return [label for label, _ in pairs]


def walk(workspace: Path, truth: list[str]) -> dict[str, float]:
    """Seconds of each step."""
    install, init, serve = readme_lines()
    commands = workspace / "venv" / ("Scripts" if os.name == "nt" else "bin")
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    clean |= {"PARBALS_CACHE_DIR": str(workspace / "cache"), "PIP_NO_CACHE_DIR": "1"}
    seconds = dict[str, float]()
    started = time.monotonic()

    def took(step: str) -> None:
        nonlocal started
        now = time.monotonic()
        seconds[step] = round(now - started, 1)
        started = now

    subprocess.run([sys.executable, "-m", "venv", str(workspace / "venv")], check=True)
    pip = [str(commands / "python"), "-m", *install, "--quiet"]
    subprocess.run(pip, check=True, cwd=ROOT / "packages", env=clean)
    took("install")
    program = str(commands / "parbals")
    subprocess.run([program, *init[1:]], check=True, cwd=workspace, env=clean, stdout=sys.stderr)
    took("init")
    server = subprocess.Popen(
        [program, *serve[1:], "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=workspace,
        env=clean,
    )
    try:
        assert server.stdout is not None
        client = Client(server.stdout.readline().split()[-1])
        took("serve")
        while not (items := client.post("/api/take", {"annotator": "ann", "n": 1})["items"]):
            time.sleep(0.1)
        took("first item")
        position = items[0]["position"]
        answer = {"position": position, "label": truth[position], "request_id": "first"}
        client.post("/api/answers", {"annotator": "ann", "answers": [answer]})
        took("first label")
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate()
    return seconds

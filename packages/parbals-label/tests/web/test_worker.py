"""The page's second process."""

import json
import os
import subprocess
import sys
import time

from page_server import make_project, wait_for
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from parbals_label.web.supervisor import Supervisor, worker_environment


def test_the_process_speaks_json_and_ends_with_its_input(tmp_path):
    folder = make_project(tmp_path / "p", n_items=30, queued=20)
    left, fresh = folder / ".12ab.parbals-tmp", folder / ".34cd.parbals-tmp"
    left.write_bytes(b"by a worker that was cut off two days ago")
    os.utime(left, (time.time() - 2 * 24 * 3600,) * 2)
    fresh.write_bytes(b"by another process, just now")
    process = subprocess.Popen(
        [sys.executable, "-m", "parbals_label.web.worker", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=worker_environment(),
    )
    out, _ = process.communicate('{"choose": 0}\nnonsense\n', timeout=300)
    assert process.returncode == 0
    assert {json.loads(line)["state"] for line in out.splitlines()} <= {"starting", "idle"}
    assert (left.exists(), fresh.exists()) == (False, True)


def test_a_batch_and_a_report_are_made_beside_each_other(tmp_path):
    folder = make_project(tmp_path / "p", n_items=30, queued=0, strategy="random")
    with Store.open(folder) as store:
        store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="ann")
    supervisor = Supervisor(folder, lambda: None)
    supervisor.start()
    try:
        with Store.open(folder, read_only=True) as store:
            wait_for(lambda: supervisor.state == "idle")
            supervisor.ask(5)
            wait_for(lambda: store.queue_counts().free == 5 and store.latest_report())
    finally:
        supervisor.stop()
    assert supervisor.n_chosen == 5

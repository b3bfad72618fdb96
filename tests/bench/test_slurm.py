"""Slurm jobs: the script they are given, and a grid really computed in them.

Two small programs stand in for a Slurm installation: `sbatch` starts the job script as a process
group of its own on this machine and answers with a job number, `scancel` ends that group.
Everything else is the real thing: dask-jobqueue, the scheduler, TLS, the workers.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from bench_helpers import TINY_SUITE
from click.testing import CliRunner

from parbals.bench import dask_cluster
from parbals.bench.dask_cluster import SlurmJobs, read_slurm_options
from parbals.bench.executors import InProcess
from parbals.bench.folder import ResultsFolder
from parbals.bench.grid import read_suite, run_grid
from parbals.bench.loading import load_data
from parbals.cli.bench import bench
from parbals.errors import InputError, MissingDependencyError

pytestmark = [
    pytest.mark.filterwarnings("default"),  # Dask's own warnings are not ours to fix
    pytest.mark.skipif(sys.platform != "linux", reason="Slurm runs on Linux"),
]

_SBATCH = """#!{python}
import os, shutil, subprocess, sys
here = os.path.dirname(os.path.abspath(__file__))
number = os.getpid()
if "refuse" in os.listdir(here):
    sys.exit("sbatch: error: invalid partition specified: nowhere")
script = os.path.join(here, "jobs", f"{{number}}.sh")
shutil.copy(sys.argv[1], script)
environment = os.environ | {{"SLURM_JOB_ID": str(number)}}
with open(os.path.join(here, f"{{number}}.log"), "w") as log:
    job = subprocess.Popen(["bash", script], stdout=log, stderr=log, start_new_session=True, env=environment)
with open(os.path.join(here, "jobs", f"{{number}}.pid"), "w") as file:
    file.write(str(job.pid))
print("Submitted batch job", number)
"""
_SCANCEL = """#!{python}
import os, signal, sys
here = os.path.dirname(os.path.abspath(__file__))
try:
    os.killpg(int(open(os.path.join(here, "jobs", sys.argv[1] + ".pid")).read()), signal.SIGTERM)
except ProcessLookupError:
    sys.exit("scancel: error: no such job")
"""


class Slurm:
    """Looks at the jobs of the stand-in."""

    def __init__(self, folder):
        self.folder = folder

    @property
    def scripts(self):
        return [path.read_text() for path in sorted((self.folder / "jobs").glob("*.sh"))]

    @property
    def groups(self):
        return [int(path.read_text()) for path in sorted((self.folder / "jobs").glob("*.pid"))]

    def living(self):
        return [group for group in self.groups if _is_alive(group)]

    def all_end(self):
        """Jobs that were cancelled take a moment to end."""
        for _ in range(400):
            if not self.living():
                return True
            time.sleep(0.05)
        return False


def _is_alive(group):
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    pytest.importorskip("dask_jobqueue")
    pytest.importorskip("cryptography")
    folder = tmp_path / "slurm"
    (folder / "jobs").mkdir(parents=True)
    for name, text in (("sbatch", _SBATCH), ("scancel", _SCANCEL)):
        (folder / name).write_text(text.format(python=sys.executable))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    yield Slurm(folder)
    for group in Slurm(folder).living():
        os.killpg(group, signal.SIGKILL)


@pytest.fixture(scope="module")
def in_process(tmp_path_factory):
    folder = ResultsFolder(tmp_path_factory.mktemp("whole"))
    runs = read_suite(TINY_SUITE).only(strategies=["random", "confidence"], seeds=2)
    assert run_grid(runs, folder, load_data, InProcess()) == []
    return {record.key: record.without_seconds() for record in folder.records()}


def call(*arguments):
    return CliRunner().invoke(bench, ["run", *map(str, arguments)])


def results_of(path):
    return {record.key: record.without_seconds() for record in ResultsFolder(path).records()}


def test_the_job_script_says_what_was_asked_for(slurm, tmp_path):
    options = [
        "partition=long",
        "mem=6000",
        "cpus-per-task=3",
        "time=01:30:00",
        "gres=gpu:1",
        "exclusive",
        "account=me",
    ]
    jobs = SlurmJobs(2, read_slurm_options([*options, "interface=lo"]), tmp_path)
    try:
        script = jobs.job_script()
        keys = [
            path for path in tmp_path.glob(".slurm-keys-*/*") if path.stat().st_mode & 0o077 == 0
        ]
        assert len(keys) == 3
    finally:
        jobs.close()
    lines = script.splitlines()
    for line in (
        "-p long",
        "-A me",
        "--mem=6000",
        "--cpus-per-task=3",
        "-t 01:30:00",
        "--gres=gpu:1",
        "--exclusive",
    ):
        assert f"#SBATCH {line}" in lines
    assert "--nthreads 1 " in script
    assert "--memory-limit 5.86GiB" in script  # 6,000 MiB
    assert "tls://" in script
    assert sys.executable in script
    assert slurm.scripts == []  # looking submits nothing
    assert not list(tmp_path.glob(".slurm-*"))  # the keys are gone with the cluster


def test_a_grid_is_computed_in_two_jobs_that_end_with_it(slurm, tmp_path, in_process):
    (tmp_path / "tiny.toml").write_text(TINY_SUITE)
    arguments = [
        "--suite",
        tmp_path / "tiny.toml",
        "--out",
        tmp_path / "out",
        "--strategies",
        "random,confidence",
    ]
    arguments += ["--seeds", 2, "--slurm", "--jobs", 2, "--slurm-option", "interface=lo", "--json"]
    done = call(*arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["computed"] == 4
    assert results_of(tmp_path / "out") == in_process
    assert len(slurm.scripts) == 2
    assert "#SBATCH -J parbals-bench" in slurm.scripts[0]
    assert slurm.all_end()


def test_a_job_that_ends_at_its_time_limit_is_replaced(slurm, tmp_path, in_process, monkeypatch):
    import dask

    monkeypatch.setattr(dask_cluster, "_LOOK_AGAIN", 0.5)
    runs = read_suite(TINY_SUITE).only(strategies=["random", "confidence"], seeds=2)
    folder = ResultsFolder(tmp_path / "out")
    killed = []

    def end_the_job(progress):
        if progress.done == 1 and not killed:
            killed.extend(slurm.living())
            os.killpg(killed[0], signal.SIGKILL)

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "500ms"}):
        jobs = SlurmJobs(1, read_slurm_options(["interface=lo"]), tmp_path)
        assert run_grid(runs, folder, load_data, jobs, end_the_job) == []
    assert results_of(folder.path) == in_process
    assert len(killed) == 1
    assert len(slurm.scripts) == 2
    assert slurm.all_end()


def test_what_slurm_refuses_is_told_in_its_own_words(slurm, tmp_path):
    (slurm.folder / "refuse").touch()
    jobs = SlurmJobs(1, read_slurm_options(["interface=lo", "partition=nowhere"]), tmp_path)
    runs = read_suite(TINY_SUITE).only(seeds=1)
    with pytest.raises(
        InputError, match="Slurm did not take a job: sbatch: error: invalid partition"
    ):
        run_grid(runs, ResultsFolder(tmp_path / "out"), load_data, jobs)


def test_without_slurm_it_says_so(tmp_path, monkeypatch):
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no sbatch on the PATH"):
        SlurmJobs(1, {}, tmp_path)


def test_without_dask_jobqueue_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with pytest.raises(
        MissingDependencyError, match=r'dask_jobqueue.*pip install "parbals\[slurm\]"'
    ):
        SlurmJobs(1, {}, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--slurm", "--workers", 1), "give one of them"),
        (("--jobs", 3), "add --slurm"),
        (("--slurm-option", "mem=1G"), "add --slurm"),
        (("--slurm", "--slurm-option", "=long"), "not KEY=VALUE"),
        (("--slurm", "--slurm-option", "partition="), "not KEY=VALUE"),
        (("--slurm", "--slurm-option", "a=b\n#SBATCH -x"), "not KEY=VALUE"),
        (("--slurm", "--slurm-option", "mem=lots"), "no amount of memory"),
        (("--slurm", "--slurm-option", "cpus-per-task=two"), "no number of cores"),
    ],
)
def test_mistakes_are_refused_before_anything_is_written(tmp_path, arguments, message):
    refused = call("--out", tmp_path / "out", *arguments).exception
    assert isinstance(refused, InputError)
    assert message in str(refused)
    assert not (tmp_path / "out").exists()

"""Runs on other machines: the workers of a Dask scheduler that is there already, or of Slurm jobs
started for the grid.

Dask gives the run of a worker that died to another one. Its tasks travel as pickles, so whoever
reaches a scheduler may compute in its owner's name: our own scheduler speaks to its jobs with TLS
and certificates made for this one grid.
"""

import re
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from parbals.bench.executors import Loader, Outcome, attempt_cached
from parbals.bench.spec import Run
from parbals.errors import InputError, MissingDependencyError

__all__ = ["DaskCluster", "SlurmJobs", "read_slurm_options"]

_DEFAULTS = {"cpus-per-task": "2", "mem": "8G", "time": "04:00:00", "job-name": "parbals-bench"}
_OURS = {
    "interface": "interface",
    "local-directory": "local_directory",
    "log-directory": "log_directory",
    "python": "python",
}
"""Options that are no option of sbatch: where the worker finds things on its machine."""
_MEMORY = re.compile(r"(\d+)\s*([KMGT]?)B?", re.IGNORECASE)
_LOOK_AGAIN = 20.0
"""Seconds after which jobs that ended (at their time limit, or with their machine) are replaced."""


class DaskCluster:
    """Runs on the workers of a Dask scheduler."""

    def __init__(self, address: str, timeout: float = 30.0) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise MissingDependencyError(
                '--scheduler needs Dask, which is not installed; pip install "dask[distributed]".'
            ) from None
        try:
            self._client = Client(address, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(f"There is no Dask scheduler at {address} ({error}).") from None

    @property
    def n_parallel(self) -> int:
        return max(1, len(self._client.scheduler_info(n_workers=-1)["workers"]))

    def results(self, runs: Sequence[Run], loader: Loader) -> Iterator[Outcome]:
        return _outcomes(self._client, runs, loader)


class SlurmJobs:
    """``n_jobs`` Slurm jobs that compute one run at a time each, from ``results`` on until the last
    run is done.

    A job that ends early, for example at its time limit, is replaced by a new one; its run is
    computed again.

    Args:
        n_jobs: how many jobs to keep.
        options: see :func:`read_slurm_options`.
        shared: a folder that this machine and the jobs' machines see; keys for this grid lie there
            while it lasts.
    """

    def __init__(self, n_jobs: int, options: Mapping[str, str | None], shared: Path) -> None:
        try:
            import cryptography  # noqa: F401
            from dask_jobqueue import SLURMCluster
        except ImportError as error:
            raise MissingDependencyError(
                f'--slurm needs {error.name}, which is not installed; pip install "parbals[slurm]".'
            ) from None
        if shutil.which("sbatch") is None:
            raise InputError(
                "--slurm starts jobs with sbatch, and there is no sbatch on the PATH; run this on "
                "a machine of the Slurm cluster, or use --workers or --scheduler."
            )
        self.n_parallel = n_jobs
        shared.mkdir(parents=True, exist_ok=True)
        self._keys = TemporaryDirectory(prefix=".slurm-keys-", dir=shared.absolute())
        self._cluster = SLURMCluster(
            **_keywords(options),
            job_cls=_job_class(),
            security=_security(Path(self._keys.name)),
            scheduler_options={"dashboard": False, "dashboard_address": None},
        )

    def job_script(self) -> str:
        """What sbatch is given for every job."""
        return str(self._cluster.job_script())

    def results(self, runs: Sequence[Run], loader: Loader) -> Iterator[Outcome]:
        from distributed import Client

        done = threading.Event()
        keeper = threading.Thread(target=self._keep_jobs, args=(done,), daemon=True)
        try:
            self._submit()
            keeper.start()
            yield from _outcomes(Client(self._cluster, set_as_default=False), runs, loader)
        finally:
            done.set()
            if keeper.ident is not None:
                keeper.join()
            self.close()

    def close(self) -> None:
        """End the jobs and the scheduler; jobs that wait in the queue are withdrawn."""
        self._cluster.close()
        self._keys.cleanup()

    def _submit(self) -> None:
        """Submit the jobs that are missing; what Slurm refuses is raised, and tried again next
        time."""
        self._cluster.scale(jobs=self.n_parallel)
        with suppress(RuntimeError):  # waits for what `scale` has only begun
            self._cluster.sync(self._cluster._correct_state)
        refused = {name: job.refusal for name, job in self._cluster.workers.items() if job.refusal}
        for name in refused:
            del self._cluster.workers[name]
        if refused:
            raise InputError(f"Slurm did not take a job: {next(iter(refused.values()))}.")

    def _keep_jobs(self, done: threading.Event) -> None:
        """Dask forgets a worker that was lost, and starts another one only when it is asked again."""
        while not done.wait(_LOOK_AGAIN):
            with suppress(
                InputError
            ):  # the queue is full, or Slurm away: the other jobs go on meanwhile
                self._submit()


def read_slurm_options(given: Sequence[str]) -> dict[str, str | None]:
    """KEY=VALUE or KEY, by the names that sbatch has for them; and interface, python, local- and
    log-directory.

    Example:
        >>> read_slurm_options(["partition=long", "exclusive"])
        {'partition': 'long', 'exclusive': None}
    """
    options: dict[str, str | None] = {}
    for text in given:
        key, equals, value = text.strip().partition("=")
        key = key.strip().lstrip("-").replace("_", "-")
        if (
            not re.fullmatch(r"[a-z][a-z0-9-]*", key)
            or (equals and not value.strip())
            or "\n" in value
        ):
            raise InputError(
                f"--slurm-option {text!r} is not KEY=VALUE; for example --slurm-option "
                "partition=long, with the long names of sbatch."
            )
        options[key] = value.strip() if equals else None
    memory = options.get("mem")
    if "mem" in options and (memory is None or _MEMORY.fullmatch(memory) is None):
        raise InputError(f"--slurm-option mem={memory} is no amount of memory; write 8G or 500M.")
    cores = options.get("cpus-per-task", "1")
    if cores is None or not cores.isdigit() or int(cores) < 1:
        raise InputError(f"--slurm-option cpus-per-task={cores} is no number of cores.")
    return options


def _keywords(given: Mapping[str, str | None]) -> dict[str, Any]:
    """For SLURMCluster: one worker process with one Dask thread a job, whose linear algebra uses
    all its cores."""
    options = {**_DEFAULTS, **given}
    memory = str(options.pop("mem"))
    found = _MEMORY.fullmatch(memory)
    assert found is not None
    keywords: dict[str, Any] = {
        "cores": 1,
        "processes": 1,
        "job_cpu": int(str(options.pop("cpus-per-task"))),
        "job_mem": memory,
        "memory": f"{found[1]}{found[2].upper() or 'M'}iB",  # a bare number is megabytes to Slurm
        "walltime": options.pop("time"),
        "job_name": options.pop("job-name"),
        "queue": options.pop("partition", None),
        "account": options.pop("account", None),
    }
    for name, keyword in _OURS.items():
        if name in options:
            keywords[keyword] = options.pop(name)
    keywords["job_extra_directives"] = [
        f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()
    ]
    return keywords


def _security(folder: Path) -> Any:
    """A key and a certificate made for this grid, in files that only their owner can read."""
    from distributed.security import Security

    made = Security.temporary().get_tls_config_for_role("worker")
    files = {name: folder / name for name in ("ca_file", "cert", "key")}
    for name, path in files.items():
        path.touch(mode=0o600)
        path.write_text(made[name])
    roles = {
        f"tls_{role}_{name}": str(files[name])
        for role in ("client", "scheduler", "worker")
        for name in ("cert", "key")
    }
    return Security(require_encryption=True, tls_ca_file=str(files["ca_file"]), **roles)


def _outcomes(client: Any, runs: Sequence[Run], loader: Loader) -> Iterator[Outcome]:
    from distributed import as_completed

    waiting = {
        client.submit(attempt_cached, run, loader, key=f"parbals-{run.key}", pure=False): run
        for run in runs
    }
    try:
        for future in as_completed(list(waiting), loop=client.loop):
            run = waiting.pop(future)
            failed = future.exception()
            yield Outcome(run, None, f"Dask gave up: {failed}") if failed else future.result()
    finally:
        client.cancel(list(waiting))
        client.close()


def _job_class() -> Any:
    """Slurm jobs as dask-jobqueue starts them; one that was refused remembers why, which is
    otherwise only logged."""
    from dask_jobqueue.slurm import SLURMJob
    from distributed.core import Status

    class Job(SLURMJob):
        refusal = ""

        async def start(self) -> None:
            try:
                await super().start()
            except (RuntimeError, ValueError, OSError) as error:
                self.status = Status.failed
                # What sbatch itself said, without the command line around it.
                said = str(error).partition("stderr:\n")[2].strip() or str(error)
                self.refusal = said.splitlines()[-1].rstrip(".")
                raise

    return Job

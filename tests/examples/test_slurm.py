"""The example for Slurm: what dask-jobqueue as it is gives sbatch for every job."""

import importlib.util
from copy import deepcopy
from pathlib import Path

import pytest

_PROGRAM = Path(__file__).parents[2] / "examples" / "slurm" / "bench_on_slurm.py"


@pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours to fix
def test_the_job_script(tmp_path, monkeypatch):
    jobqueue = pytest.importorskip("dask_jobqueue")
    pytest.importorskip("cryptography")
    dask = pytest.importorskip("dask")
    spec = importlib.util.spec_from_file_location("bench_on_slurm", _PROGRAM)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    asked = {}
    monkeypatch.setattr(jobqueue.SLURMCluster, "adapt", lambda self, **limits: asked.update(limits))
    monkeypatch.chdir(tmp_path)
    tls = deepcopy(dask.config.get("distributed.comm.tls"))  # put back afterwards
    with (
        dask.config.set({"distributed.comm.tls": tls}),
        program.start(3, 2, "8GB", "01:00:00", ["partition=long"]) as cluster,
    ):
        script = cluster.job_script()
        assert cluster.scheduler_address.startswith("tls://")
    assert asked == {"minimum_jobs": 3, "maximum_jobs": 3}
    for line in ("--cpus-per-task=2", "--mem=8G", "-t 01:00:00", "--partition=long"):
        assert f"#SBATCH {line}\n" in script
    assert "--nthreads 1 " in script
    assert "--tls-key" in script

"""`parbals bench run` on Slurm: dask-jobqueue starts the jobs, and the suite runs on them.

    pip install 'parbals[slurm]'
    python bench_on_slurm.py --jobs 20 --option partition=long --suite paper --data ~/data

Start it on a machine of the cluster, in a folder that all its machines see. Unknown options go to
`parbals bench run`. Jobs that end at their time limit are replaced; all end with this program, and
starting it again computes what is missing. Scheduler and jobs speak TLS with keys made for this one
grid: anybody who reaches a plain Dask scheduler can run code there.
"""

import argparse

import dask
from dask_jobqueue import SLURMCluster
from distributed.security import Security
from parbals.cli.main import main


def start(jobs: int, cores: int, memory: str, time: str, options: list[str]) -> SLURMCluster:
    """Jobs of one worker each, which computes one run at a time with all its cores."""
    security = Security.temporary()
    tls = {"ca-file": security.tls_ca_file, "client.cert": security.tls_client_cert}
    tls["client.key"] = security.tls_client_key
    dask.config.set({f"distributed.comm.tls.{name}": pem for name, pem in tls.items()})
    cluster = SLURMCluster(
        cores=1,
        job_cpu=cores,
        memory=memory,
        walltime=time,
        job_extra_directives=[f"--{option}" for option in options],
        protocol="tls://",
        security=security,
        shared_temp_directory=".",
        scheduler_options={"dashboard": False, "dashboard_address": None},
    )
    cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)
    return cluster


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--cores", type=int, default=2, help="of each job")
    parser.add_argument("--memory", default="8GB", help="of each job")
    parser.add_argument("--time", default="04:00:00", help="limit of each job")
    parser.add_argument(
        "--option", action="append", default=[], help="of sbatch, as partition=long"
    )
    given, for_bench = parser.parse_known_args()
    with start(given.jobs, given.cores, given.memory, given.time, given.option) as cluster:
        main(["bench", "run", "--scheduler", cluster.scheduler_address, *for_bench])

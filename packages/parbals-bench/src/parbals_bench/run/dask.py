"""Runs on other machines: the workers of a Dask scheduler, wherever it was started.

Dask gives the run of a worker that died to another one. Its tasks travel as pickles, so a scheduler
must be reachable by its owner alone: anybody else who reaches it can run code there.
"""

from collections.abc import Iterator, Sequence

from parbals.errors import InputError
from parbals.files import need

from parbals_bench.run.executors import Loader, Outcome, attempt
from parbals_bench.run.spec import Run

__all__ = ["DaskCluster"]


class DaskCluster:
    """Runs on the workers of a Dask scheduler."""

    def __init__(self, address: str, timeout: float = 30.0) -> None:
        distributed = need("distributed", "--scheduler", "parbals[cluster]")
        try:
            self._client = distributed.Client(address, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(f"There is no Dask scheduler at {address} ({error}).") from None

    def results(self, runs: Sequence[Run], loader: Loader) -> Iterator[Outcome]:
        from distributed import as_completed

        waiting = {
            self._client.submit(attempt, run, loader, key=f"parbals-{run.key}", pure=False): run
            for run in runs
        }
        try:
            for future in as_completed(list(waiting), loop=self._client.loop):
                run = waiting.pop(future)
                failure = future.exception()
                yield Outcome(run, None, f"Dask gave up: {failure}") if failure else future.result()
        finally:
            self._client.cancel(list(waiting))
            self._client.close()

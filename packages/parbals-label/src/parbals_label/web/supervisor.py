"""Keeps the worker process alive, tells it what is needed, and remembers what it says."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from parbals_label.web.schemas import State

__all__ = ["Supervisor", "worker_environment"]

_log = logging.getLogger("parbals.web")

_PATIENCE = 30.0
_MANY_DEATHS = 3
_SECONDS_TO_END = 3.0


def worker_environment() -> dict[str, str]:
    """One core for the worker: numerical libraries read these when they start."""
    one = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"), "1"
    )
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    return {**os.environ, **one, "XLA_FLAGS": flags, "PYTHONUNBUFFERED": "1"}


class Supervisor:
    """Runs :mod:`parbals_label.web.worker`; starts it again when it ends, after a growing pause.

    ``deaths`` counts those that followed each other within a minute: one that chooses items and
    then dies in every report has failed as well; ``ends`` counts all. ``seconds_to_choose`` is how
    long the latest batch of ``n_chosen`` items took; ``n_batches`` how many there were.
    ``adapting`` is a sentence on how far the encoder has learnt.
    """

    def __init__(self, folder: Path, changed: Callable[[], None], first_pause: float = 0.5) -> None:
        # -P: modules that lie in the current folder, beside somebody's data, are not imported.
        self.command = [sys.executable, "-P", "-m", "parbals_label.web.worker", str(folder)]
        self._changed, self._first_pause = changed, first_pause
        self.state: State = "starting"
        self.message: str | None = None
        self.adapting: str | None = None
        self.deaths = self.ends = 0
        self.seconds_to_choose, self.n_chosen, self.n_batches = 0.0, 0, 0
        self._process: subprocess.Popen[str] | None = None
        self._wanted: dict[str, Any] | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._lock = threading.Lock()

    @property
    def process_id(self) -> int | None:
        """The id of the worker that runs now."""
        process = self._process
        return None if process is None else process.pid

    def start(self) -> None:
        """Start the worker, and see to it."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the worker to end, and end it if it does not."""
        self._ending.set()
        process = self._process
        if process is not None:
            with suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
            try:
                process.wait(_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._thread.ident is not None:
            self._thread.join()

    def ask(
        self, n_items: int, renew: Sequence[str] = (), effort: Mapping[str, int] | None = None
    ) -> None:
        """Tell the worker how many items to choose, and whose choice is to ``renew``."""
        order = {"choose": n_items, "renew": renew, "effort": dict(effort or {})}
        self._wanted = order if n_items else None
        if self.state != "choosing":  # missing items are counted again when the batch is there
            self._tell()

    def _tell(self) -> None:
        process = self._process
        if self._wanted is not None and process is not None and process.stdin is not None:
            with self._lock, suppress(OSError, ValueError):
                process.stdin.write(json.dumps(self._wanted) + "\n")
                process.stdin.flush()

    def _keep(self) -> None:
        while not self._ending.is_set():
            began = time.monotonic()
            code, words = self._run()
            if self._ending.is_set():
                return
            seconds, last = time.monotonic() - began, words[-1][:200] if words else ""
            self.ends += 1
            self.deaths = 1 if seconds > 2 * _PATIENCE else self.deaths + 1
            facts = {"code": code, "reason": _reason(code, last), "after_seconds": round(seconds)}
            facts |= {"times": self.deaths, "last_words": words}
            _log.warning(
                "The process that chooses items has ended; it is started again",
                extra={"facts": facts},
            )
            if self.deaths >= _MANY_DEATHS:
                said = f" ({last})" if last else ""
                self._note(
                    "failed",
                    f"The program that chooses items has ended {self.deaths} times, last with code "
                    f"{code}{said}; labels are still stored, and it is started again.",
                )
            else:
                self._note("starting", None)
            self._ending.wait(min(self._first_pause * 2.0 ** (self.deaths - 1), _PATIENCE))

    def _run(self) -> tuple[int, list[str]]:
        """One life of the worker: its exit code and last lines."""
        words: deque[str] = deque(maxlen=20)
        try:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=worker_environment(),
                process_group=0,  # Ctrl-C in the terminal is the server's to handle
            )
        except OSError as error:
            return 1, [str(error)]
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        if self._ending.is_set():
            process.kill()
        listener = threading.Thread(target=lambda: words.extend(process.stderr or ()), daemon=True)
        listener.start()
        self._tell()
        for line in process.stdout:
            self._hear(line)
        code = process.wait()
        listener.join(1.0)
        for stream in (process.stdin, process.stdout, process.stderr):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        self._process = self.adapting = None
        return code, [line.strip() for line in words if line.strip()]

    def _hear(self, line: str) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return  # a library's chatter
        if not isinstance(said, dict):
            return
        self.adapting = said.get("adapting", self.adapting)
        if "chose" in said:
            self.n_batches += 1
            if said["chose"]:
                self.n_chosen, self.seconds_to_choose = said["chose"], said.get("seconds", 0.0)
        if "state" in said and not (said["state"] == "starting" and self.deaths >= _MANY_DEATHS):
            self._note(said["state"], said.get("message"))

    def _note(self, state: State, message: str | None) -> None:
        self.state, self.message = state, message
        self._changed()


def _reason(code: int, last: str) -> str:
    """Why a process has ended, as far as can be seen from outside."""
    if code >= 0:
        return last or f"it ended by itself with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"{name}: perhaps out of memory" if name == "SIGKILL" else name

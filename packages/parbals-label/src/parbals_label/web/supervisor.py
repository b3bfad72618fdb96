"""Keeps the worker process running, sends it commands, and stores its messages."""

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

from parbals.environment import command_environment

from parbals_label.web.schemas import State

__all__ = ["Supervisor", "worker_environment"]

_log = logging.getLogger("parbals.web")

_MAX_PAUSE_SECONDS = 30.0
_MAX_CRASHES = 3
"""Crashes in a row after which the worker is reported as failed."""
_STOP_SECONDS = 3.0
_MAX_SILENCE_SECONDS = 300.0
"""A worker says every few seconds that it is alive; after so long without a word it is killed."""


def worker_environment() -> dict[str, str]:
    """Return environment variables that restrict numerical libraries to one core.

    JAX and PyTorch share a GPU, unless the user's environment says otherwise.
    """
    one_thread = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"), "1"
    )
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    return {
        **command_environment(),
        **os.environ,
        **one_thread,
        "XLA_FLAGS": flags,
        "PYTHONUNBUFFERED": "1",
    }


class Supervisor:
    """Runs :mod:`parbals_label.web.worker` and restarts it when it ends, after a growing pause.

    Attributes:
        state, message: what the worker is doing, and a sentence about it.
        adapting: a sentence on the progress of fine-tuning.
        deaths: crashes within a minute of each other. A worker that chooses items but crashes in
            every report counts as failed, too.
        ends: all crashes.
        n_batches: batches that were chosen.
        n_chosen, seconds_to_choose: size and duration of the latest batch.
    """

    def __init__(self, folder: Path, changed: Callable[[], None], first_pause: float = 0.5) -> None:
        # -P: modules in the current folder, which may be untrusted, are not imported.
        self.command = [sys.executable, "-P", "-m", "parbals_label.web.worker", str(folder)]
        self._changed = changed
        self._first_pause = first_pause
        self.state: State = "starting"
        self.message: str | None = None
        self.adapting: str | None = None
        self.deaths = 0
        self.ends = 0
        self.seconds_to_choose = 0.0
        self.n_chosen = 0
        self.n_batches = 0
        self._process: subprocess.Popen[str] | None = None
        self._command: dict[str, Any] | None = None
        self._last_message_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_running, daemon=True)
        self._watch = threading.Thread(target=self._end_silent_workers, daemon=True)
        self._lock = threading.Lock()

    @property
    def process_id(self) -> int | None:
        """The id of the running worker process."""
        process = self._process
        return None if process is None else process.pid

    @property
    def silent_seconds(self) -> float:
        """Seconds since the running worker's last sign of life, which it gives every few seconds.

        0 where no worker runs.
        """
        return 0.0 if self._process is None else time.monotonic() - self._last_message_at

    def start(self) -> None:
        """Start the worker, and keep it running."""
        self._thread.start()
        self._watch.start()

    def stop(self) -> None:
        """Ask the worker to stop, and kill it if it does not."""
        self._stopping.set()
        process = self._process
        if process is not None:
            with suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._thread.ident is not None:
            self._thread.join()
            self._watch.join()

    def ask(
        self, n_items: int, replaces: Sequence[str] = (), effort: Mapping[str, int] | None = None
    ) -> None:
        """Ask for ``n_items``, in place of unopened items of the strategies in ``replaces``.

        If the worker ends before it has chosen, the next one gets the same command.
        """
        if not n_items:
            return
        self._command = {"choose": n_items, "replaces": replaces, "effort": dict(effort or {})}
        if self.state != "choosing":  # missing items are counted again after the batch
            self._send()

    def _send(self) -> None:
        process = self._process
        if self._command is not None and process is not None and process.stdin is not None:
            with self._lock, suppress(OSError, ValueError):
                process.stdin.write(json.dumps(self._command) + "\n")
                process.stdin.flush()

    def _keep_running(self) -> None:
        while not self._stopping.is_set():
            started_at = time.monotonic()
            code, error_lines = self._run()
            if self._stopping.is_set():
                return
            seconds = time.monotonic() - started_at
            last_line = error_lines[-1][:200] if error_lines else ""
            self.ends += 1
            self.deaths = 1 if seconds > 2 * _MAX_PAUSE_SECONDS else self.deaths + 1
            facts = {
                "code": code,
                "reason": _reason(code, last_line),
                "after_seconds": round(seconds),
                "times": self.deaths,
                "last_words": error_lines,
            }
            _log.warning(
                "The worker process has stopped; restarting it",
                extra={"facts": facts},
            )
            if self.deaths >= _MAX_CRASHES:
                reason = f" ({last_line})" if last_line else ""
                self._set_state(
                    "failed",
                    f"The worker process has stopped {self.deaths} times, last with code "
                    f"{code}{reason}; labels are still stored, and it is restarted.",
                )
            else:
                self._set_state("starting", None)
            self._stopping.wait(
                min(self._first_pause * 2.0 ** (self.deaths - 1), _MAX_PAUSE_SECONDS)
            )

    def _end_silent_workers(self) -> None:
        """Kill a worker that hangs or was stopped; it is restarted like one that crashed."""
        while not self._stopping.wait(_MAX_SILENCE_SECONDS / 20):
            process = self._process
            silence = self.silent_seconds
            if process is not None and silence > _MAX_SILENCE_SECONDS:
                facts = {"silent_for_seconds": round(silence)}
                _log.warning("The worker process is silent; ending it", extra={"facts": facts})
                process.kill()

    def _run(self) -> tuple[int, list[str]]:
        """Run the worker until it ends; returns its exit code and last lines of standard error."""
        error_lines: deque[str] = deque(maxlen=20)
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
                process_group=0,  # only the server handles Ctrl-C
            )
        except OSError as error:
            return 1, [str(error)]
        assert process.stdout is not None
        assert process.stderr is not None
        self._last_message_at = time.monotonic()
        self._process = process
        if self._stopping.is_set():
            process.kill()
        listener = threading.Thread(
            target=lambda: error_lines.extend(process.stderr or ()), daemon=True
        )
        listener.start()
        self._send()
        for line in process.stdout:
            self._receive(line)
        code = process.wait()
        listener.join(1.0)
        for stream in (process.stdin, process.stdout, process.stderr):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        self._process = None
        self.adapting = None
        return code, [line.strip() for line in error_lines if line.strip()]

    def _receive(self, line: str) -> None:
        """Store a message of the worker."""
        self._last_message_at = time.monotonic()
        try:
            message = json.loads(line)
        except ValueError:
            return  # output of a library
        if not isinstance(message, dict):
            return
        self.adapting = message.get("adapting", self.adapting)
        if "chose" in message:
            self._command = None
            self.n_batches += 1
            if message["chose"]:
                self.n_chosen = message["chose"]
                self.seconds_to_choose = message.get("seconds", 0.0)
        state = message.get("state")
        has_failed = self.deaths >= _MAX_CRASHES
        if state is not None and not (state == "starting" and has_failed):
            self._set_state(state, message.get("message"))

    def _set_state(self, state: State, message: str | None) -> None:
        self.state = state
        self.message = message
        self._changed()


def _reason(code: int, last_line: str) -> str:
    """Return why a process has ended, as far as its exit code and output tell."""
    if code >= 0:
        return last_line or f"it exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if name == "SIGKILL":
        return "SIGKILL: perhaps out of memory"
    return name

"""A program as annotator: run for every batch, items on its input, answers from its output."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO

from parbals.errors import InputError
from parbals.wording import without_controls

from parbals_label.answer_form import AnswerForm
from parbals_label.machines.json_lines import request_lines
from parbals_label.machines.llm.endpoint import DEFAULT_KEY
from parbals_label.store.records import Item

__all__ = ["Conversation", "Ending", "Program", "split_command"]

_TAIL_BYTES = 2_000
"""End of the error output that is kept for the reason of a failure."""
_CHUNK_BYTES = 1 << 16
_TAIL_SECONDS = 1.0
"""Time to wait for the rest of the error output; children of the program may keep it open."""
_MAX_BATCH_BYTES = 1 << 20
_MAX_ITEM_BYTES = 1 << 16
"""A program may write so much about a batch, and in addition so much about each item."""
_EXIT_SECONDS = 5.0
"""Time that a program has to exit after it was asked to."""


def split_command(command: str) -> list[str]:
    """The words of a command line whose program exists, split as a shell would; not expanded."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(
            f"The command {command!r} cannot be split into words ({error}); check its quotes."
        ) from None
    if not words:
        raise InputError(
            'The command is empty; say which program to run, such as --with "python rule.py".'
        )
    if shutil.which(words[0]) is None:
        raise InputError(
            f"There is no program {words[0]!r} to run; check the spelling or give its path."
        )
    return words


class Program:
    """A command that labels items, run without a shell.

    ``media``, the folder that image paths are relative to, becomes PARBALS_MEDIA. The key of an LLM
    is not inherited. ``name`` is that of the script, not of the interpreter.
    """

    def __init__(self, words: Sequence[str], media: str | None = None) -> None:
        self._words = list(words)
        self.name = _name(words)
        self._environment = dict(os.environ)
        self._environment.pop(DEFAULT_KEY, None)
        if media:
            self._environment["PARBALS_MEDIA"] = media

    def ask(self, items: Sequence[Item], form: AnswerForm) -> "Conversation":
        """Start the program with these items on its standard input."""
        body = request_lines(items, form)
        return Conversation(self._words, self._environment, body, len(items))


def _name(words: Sequence[str]) -> str:
    """The name of the script or module that an interpreter runs, else of the program."""
    if words[1:2] == ["-m"] and len(words) > 2:
        return words[2]
    scripts = (word for word in words[1:] if not word.startswith("-") and Path(word).is_file())
    return Path(next(scripts, words[0])).stem


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended.

    Attributes:
        fault: what went wrong, as a phrase; None if nothing did.
        final: another attempt cannot help.
        is_too_costly: the rest was not asked about, because nothing more may be spent.
    """

    fault: str | None = None
    final: bool = False
    is_too_costly: bool = False


class Conversation:
    """A running program with its batch.

    It reads from a file and writes into a file: neither side waits for the other, as with pipes,
    and its output is complete however it ends. Of its error output, which has no limit, only the
    end is kept.
    """

    def __init__(
        self, words: list[str], environment: dict[str, str], body: bytes, n_items: int
    ) -> None:
        self._limit = _MAX_BATCH_BYTES + _MAX_ITEM_BYTES * n_items
        self._partial_line = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._resources = ExitStack()
        temporary = tempfile.TemporaryDirectory(prefix="parbals-")
        folder = Path(self._resources.enter_context(temporary))
        (folder / "items").write_bytes(body)
        self._output = folder / "output"
        try:
            with (
                (folder / "items").open("rb") as items,
                self._output.open("wb") as output,
            ):
                self._process = subprocess.Popen(
                    words,
                    stdin=items,
                    stdout=output,
                    stderr=subprocess.PIPE,
                    env=environment,
                    # Its own group: Ctrl-C does not reach it, and its children end with it.
                    start_new_session=os.name == "posix",
                )
        except OSError as error:
            self._start_fault = f"{words[0]} cannot be started ({error.strerror})"
        self._errors = _Tail(self._process.stderr) if self._process is not None else None
        self._reader = self._resources.enter_context(self._output.open("rb"))

    def receive(self, seconds: float) -> list[bytes] | Ending | None:
        """The next lines, or how the program ended; None if nothing came in that time."""
        if self._process is None:
            return Ending(self._start_fault, final=True)
        if self._output.stat().st_size > self._limit:
            return Ending(f"it wrote more than {self._limit:,} bytes about one batch")
        code = self._process.poll()  # before reading, so that the output is complete if it ended
        lines = self._complete_lines(self._reader.read(), ended=code is not None)
        if lines:
            return lines
        if code is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return None
        if code == 0:
            return Ending()
        error_line = self.last_error()
        quotation = f", saying: {error_line}" if error_line else ""
        return Ending(f"it ended with {_exit_reason(code)}{quotation}")

    def abort(self) -> None:
        """End the program; its output can still be received."""
        if self._process is not None and self._process.poll() is None:
            _kill(self._process, hard=False)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_EXIT_SECONDS)
            _kill(self._process, hard=True)  # its children as well
            self._process.wait()

    def close(self) -> None:
        """End the program, and remove its output."""
        self.abort()
        self._resources.close()

    def _complete_lines(self, chunk: bytes, ended: bool) -> list[bytes]:
        """The complete lines so far; when the program has ended, the last one is complete, too."""
        *lines, self._partial_line = (self._partial_line + chunk).split(b"\n")
        if ended and not chunk and self._partial_line:
            lines = [self._partial_line]
            self._partial_line = b""
        return lines

    def last_error(self) -> str:
        """The last line of its error output, usually the reason of a failure; "" if none."""
        errors = self._errors.read() if self._errors is not None else ""
        if not errors:
            return ""
        text = errors.splitlines()[-1].strip()[:200]
        return without_controls(text, "?")


class _Tail:
    """The end of a stream, which a thread reads so that the writer never waits for it."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self._bytes = b""
        self._thread = Thread(target=self._drain, args=[stream], daemon=True)
        self._thread.start()

    def read(self) -> str:
        """The last bytes as text; complete if the stream has ended."""
        self._thread.join(_TAIL_SECONDS)
        return self._bytes.decode(errors="replace").strip()

    def _drain(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := os.read(stream.fileno(), _CHUNK_BYTES):
                self._bytes = (self._bytes + chunk)[-_TAIL_BYTES:]


def _kill(process: "subprocess.Popen[bytes]", *, hard: bool) -> None:
    with suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL if hard else signal.SIGTERM)
        else:
            process.kill()


def _exit_reason(code: int) -> str:
    """An exit code, or the signal that a negative one stands for."""
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"

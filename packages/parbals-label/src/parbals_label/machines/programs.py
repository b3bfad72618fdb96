"""A program as annotator: started for every batch, items on its input, answers from its output."""

import os
import queue
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from parbals.errors import InputError

from parbals_label.machines.json_lines import MAX_LINE, request_lines
from parbals_label.store.records import Item

__all__ = ["Conversation", "Ending", "Lines", "Program", "split_command"]

Lines = list[bytes | None]
"""Whole lines without their end; None stands for one that was too long."""

_TAIL = 2_000
_PER_ITEM = 1 << 16
_WAITING = 64
_LEAVE = 5.0
"""Seconds that a program has to exit after it closed its output, and after it was asked to."""


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
    if "\0" in command:
        raise InputError("The command holds a NUL character; leave it out.")
    if shutil.which(words[0]) is None:
        raise InputError(
            f"There is no program {words[0]!r} to run; check the spelling or give its path."
        )
    return words


class Program:
    """Runs ``words`` without a shell; ``media`` becomes PARBALS_MEDIA, where image paths start.

    ``name`` is that of the script rather than the interpreter's.
    """

    def __init__(self, words: Sequence[str], media: str | None = None) -> None:
        self._words, self.name = list(words), _name(words)
        self._environment = dict(os.environ) | ({"PARBALS_MEDIA": media} if media else {})

    def ask(self, items: Sequence[Item], classes: Sequence[str]) -> "Conversation":
        """Start it with these items on its standard input, which then ends."""
        body = request_lines(items, classes)
        return Conversation(self._words, self._environment, body, len(items))


def _name(words: Sequence[str]) -> str:
    """Of the script or module that an interpreter is given, else of the program."""
    if words[1:2] == ["-m"] and len(words) > 2:
        return words[2]
    scripts = (word for word in words[1:] if not word.startswith("-") and Path(word).is_file())
    return Path(next(scripts, words[0])).stem


@dataclass(frozen=True, slots=True)
class Ending:
    """How a conversation ended: ``fault`` is what went wrong, as a phrase; None if nothing did.

    ``final``: another try cannot help.
    """

    fault: str | None = None
    final: bool = False


class Conversation:
    """A batch under way: a thread listens to the program, so that the one who asks can always stop.

    ``receive`` and ``abort`` belong to the asking thread, the rest to the listening one.
    """

    def __init__(
        self, words: list[str], environment: dict[str, str], body: bytes, n_items: int
    ) -> None:
        self._limit = MAX_LINE + _PER_ITEM * n_items
        self._size, self._rest, self._tail, self._failed = 0, b"", b"", ""
        self._skipping = False
        self._aborted, self._over = threading.Event(), threading.Event()
        # Bounded: a program that writes faster than we store has to wait.
        self._queue: queue.Queue[Lines | Ending] = queue.Queue(_WAITING)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            # From a file: it may be read slowly, in part or not at all, and nobody waits for that.
            with tempfile.TemporaryFile() as items:
                items.write(body)
                items.seek(0)
                self._process = subprocess.Popen(
                    words,
                    stdin=items,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment,
                    bufsize=0,
                    # Its own group: Ctrl-C reaches us alone, and its children end with it.
                    start_new_session=os.name == "posix",
                )
        except OSError as error:
            self._failed = f"{words[0]} cannot be started ({error.strerror})"
        threading.Thread(target=self._listen, daemon=True).start()

    def receive(self, seconds: float) -> Lines | Ending | None:
        """What came next; None if nothing came in that time."""
        try:
            return self._queue.get(timeout=seconds) if seconds > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None

    def abort(self) -> None:
        """End it, whatever its state; what has arrived can still be received."""
        self._aborted.set()
        process = self._process
        if process is None or self._over.is_set():
            return
        _kill(process, hard=False)
        if not self._over.wait(_LEAVE):
            _kill(process, hard=True)
            self._over.wait(_LEAVE)

    def _listen(self) -> None:
        try:
            ending = self._run()
        except Exception as error:  # an error in a thread would otherwise look like silence
            ending = Ending(f"{type(error).__name__}: {error}")
        if self._rest or self._skipping:
            self._put([None if self._skipping else self._rest])
        self._over.set()
        self._put(ending)

    def _run(self) -> Ending:
        process = self._process
        if process is None:
            return Ending(self._failed, final=True)
        assert process.stdout is not None
        errors = threading.Thread(target=self._read_errors, args=(process,), daemon=True)
        errors.start()
        flood = None
        with process.stdout:
            while flood is None and (chunk := os.read(process.stdout.fileno(), 1 << 16)):
                flood = self._take(chunk)
        if flood is not None:
            _kill(process, hard=True)
        try:
            code = process.wait(_LEAVE)
            lingering = False
        except subprocess.TimeoutExpired:
            _kill(process, hard=True)
            code, lingering = process.wait(), True
        errors.join(_LEAVE)
        if flood is not None:
            return flood
        if lingering:
            return Ending(f"it closed its output but went on running for {_LEAVE:.0f} s")
        return Ending(None if code == 0 else f"it ended with {_how(code)}{self._last_words()}")

    def _take(self, chunk: bytes) -> Ending | None:
        """Pass on the whole lines; an ending when more has come than a batch can need."""
        self._size += len(chunk)
        lines: Lines = []
        *whole, rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            lines.append(None if self._skipping or len(line) > MAX_LINE else line)
            self._skipping = False
        if len(rest) > MAX_LINE:
            self._skipping = True
        self._rest = b"" if self._skipping else rest
        if lines:
            self._put(lines)
        if self._size > self._limit:
            return Ending(f"it wrote more than {self._limit:,} bytes about one batch")
        return None

    def _put(self, what: Lines | Ending) -> None:
        while True:
            try:
                self._queue.put(what, timeout=0.1)
                return
            except queue.Full:
                if self._aborted.is_set():
                    return

    def _read_errors(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stderr is not None
        with process.stderr:
            while chunk := os.read(process.stderr.fileno(), 1 << 16):
                self._tail = (self._tail + chunk)[-_TAIL:]

    def _last_words(self) -> str:
        """The last line it wrote to its error stream: usually the reason."""
        lines = [line for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        if not lines:
            return ""
        text = lines[-1].strip()[:200]
        return ", saying: " + "".join(c if c.isprintable() else "?" for c in text)


def _kill(process: "subprocess.Popen[bytes]", *, hard: bool) -> None:
    with suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL if hard else signal.SIGTERM)
        else:
            process.kill()


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"

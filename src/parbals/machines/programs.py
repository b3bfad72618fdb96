"""A program as annotator: started for every batch, items to its standard input, answers from its
standard output."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from parbals.errors import InputError
from parbals.machines.exchanges import Ending, Exchange
from parbals.machines.protocol import request_lines
from parbals.store.records import Item

__all__ = ["Program", "program_name", "split_command"]

_TAIL = 2_000
_LEAVE = 5.0
"""Seconds that a program has to exit after it closed its output, and after it was asked to."""
_INTERPRETERS = re.compile(
    r"(python|pypy|node|ruby|perl|bash|sh|zsh|rscript|julia|deno|bun)[0-9.]*(\.exe)?", re.I
)


def split_command(command: str) -> list[str]:
    """The words of a command line, split as a shell would, whose program exists; nothing in it is
    expanded."""
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
            f"There is no program {words[0]!r} that could be run; check the spelling or give its "
            "path."
        )
    return words


def program_name(words: Sequence[str]) -> str:
    """What to call it: the script's name rather than the interpreter's."""
    chosen = words[0]
    if _INTERPRETERS.fullmatch(Path(words[0]).name):
        rest = list(words[1:])
        if rest[:1] == ["-m"] and len(rest) > 1:
            return rest[1]
        chosen = next(
            (word for word in rest if not word.startswith("-") and Path(word).is_file()), words[0]
        )
    return Path(chosen).stem


class Program:
    """Runs ``words`` without a shell; ``media`` is told to it as PARBALS_MEDIA, the folder image
    paths start from."""

    def __init__(self, words: Sequence[str], media: str | None = None) -> None:
        self._words = list(words)
        self._environment = dict(os.environ) | ({"PARBALS_MEDIA": media} if media else {})

    def ask(self, items: Sequence[Item], classes: Sequence[str]) -> Exchange:
        """Start it with these items on its standard input, which then ends."""
        return _Running(self._words, self._environment, request_lines(items, classes), len(items))


class _Running(Exchange):
    def __init__(
        self, words: list[str], environment: dict[str, str], body: bytes, n_items: int
    ) -> None:
        super().__init__(n_items)
        self._body, self._tail = body, b""
        self._process: subprocess.Popen[bytes] | None = None
        self._failed = ""
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                bufsize=0,
                # Its own group: Ctrl-C reaches us alone, and its children end with it.
                start_new_session=os.name == "posix",
            )
        except OSError as error:
            self._failed = f"{words[0]} cannot be started ({error.strerror})"
        self._listener.start()

    def _run(self) -> Ending:
        process = self._process
        if process is None:
            return Ending(self._failed, final=True)
        assert process.stdout is not None
        helpers = [
            threading.Thread(target=job, args=(process,), daemon=True)
            for job in (self._write, self._complain)
        ]
        for helper in helpers:
            helper.start()
        flood = None
        with process.stdout:
            while flood is None and (chunk := os.read(process.stdout.fileno(), 1 << 16)):
                flood = self._take(chunk)
        if flood is not None:
            self._kill(process, hard=True)
        try:
            code = process.wait(_LEAVE)
            lingering = False
        except subprocess.TimeoutExpired:
            self._kill(process, hard=True)
            code, lingering = process.wait(), True
        for helper in helpers:
            helper.join(_LEAVE)
        if flood is not None:
            return flood
        if lingering:
            return Ending(f"it closed its output but went on running for {_LEAVE:.0f} s")
        return Ending(None if code == 0 else f"it ended with {_how(code)}{self._last_words()}")

    def _write(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        # A program may end, or close its input, before it has read everything.
        with contextlib.suppress(OSError):
            view = memoryview(self._body)
            while view:
                view = view[process.stdin.write(view) :]
        with contextlib.suppress(OSError):
            process.stdin.close()

    def _complain(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stderr is not None
        with process.stderr:
            while chunk := os.read(process.stderr.fileno(), 1 << 16):
                self._tail = (self._tail + chunk)[-_TAIL:]

    def _last_words(self) -> str:
        """The last line it wrote to its error stream: usually the reason."""
        lines = [line for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        if not lines:
            return ""
        said = "".join(
            character if character.isprintable() else "?" for character in lines[-1].strip()[:200]
        )
        return f", saying: {said}"

    def _close(self) -> None:
        process = self._process
        if process is None or self._join(0):
            return
        self._kill(process, hard=False)
        if not self._join(_LEAVE):
            self._kill(process, hard=True)
            self._join(_LEAVE)

    @staticmethod
    def _kill(process: "subprocess.Popen[bytes]", *, hard: bool) -> None:
        with contextlib.suppress(OSError):
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL if hard else signal.SIGTERM)
            else:
                process.kill()


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"

"""A program as annotator: started for every batch, items on its input, answers from its output."""

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

from parbals.errors import InputError

from parbals_label.answer_form import AnswerForm
from parbals_label.machines.json_lines import request_lines
from parbals_label.store.records import Item

__all__ = ["Conversation", "Ending", "Program", "split_command"]

_TAIL = 2_000
_MOST, _PER_ITEM = 1 << 20, 1 << 16
"""Bytes that a program may write about a batch, and about each of its items."""
_LEAVE = 5.0
"""Seconds that a program has to exit after it was asked to."""


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
    """Runs ``words`` without a shell; ``media`` becomes PARBALS_MEDIA, where image paths start.

    ``name`` is that of the script rather than the interpreter's.
    """

    def __init__(self, words: Sequence[str], media: str | None = None) -> None:
        self._words, self.name = list(words), _name(words)
        self._environment = dict(os.environ) | ({"PARBALS_MEDIA": media} if media else {})

    def ask(self, items: Sequence[Item], form: AnswerForm) -> "Conversation":
        """Start it with these items on its standard input, which then ends."""
        body = request_lines(items, form)
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
    """A batch under way.

    The program reads from a file and writes into one: nobody has to empty it, so that neither side
    waits for the other, and what it wrote is there however it ends.
    """

    def __init__(
        self, words: list[str], environment: dict[str, str], body: bytes, n_items: int
    ) -> None:
        self._limit = _MOST + _PER_ITEM * n_items
        self._rest = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._held = ExitStack()
        place = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="parbals-")))
        (place / "items").write_bytes(body)
        self._said, self._errors = place / "said", place / "errors"
        try:
            with (
                (place / "items").open("rb") as items,
                self._said.open("wb") as said,
                self._errors.open("wb") as errors,
            ):
                self._process = subprocess.Popen(
                    words,
                    stdin=items,
                    stdout=said,
                    stderr=errors,
                    env=environment,
                    # Its own group: Ctrl-C reaches us alone, and its children end with it.
                    start_new_session=os.name == "posix",
                )
        except OSError as error:
            self._failed = f"{words[0]} cannot be started ({error.strerror})"
        self._heard = self._held.enter_context(self._said.open("rb"))

    def receive(self, seconds: float) -> list[bytes] | Ending | None:
        """What came next; None if nothing came in that time."""
        if self._process is None:
            return Ending(self._failed, final=True)
        if self._said.stat().st_size > self._limit:
            return Ending(f"it wrote more than {self._limit:,} bytes about one batch")
        code = self._process.poll()  # before reading: what it has said by then is there
        if lines := self._take(self._heard.read(), ended=code is not None):
            return lines
        if code is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return None
        return Ending(None if code == 0 else f"it ended with {_how(code)}{self._last_words()}")

    def abort(self) -> None:
        """End it, whatever its state; what it has said can still be received."""
        if self._process is not None and self._process.poll() is None:
            _kill(self._process, hard=False)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LEAVE)
            _kill(self._process, hard=True)  # and what it started
            self._process.wait()

    def close(self) -> None:
        """End it, and forget what it said."""
        self.abort()
        self._held.close()

    def _take(self, chunk: bytes, ended: bool) -> list[bytes]:
        """The whole lines among what came; with its end the last one is whole."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if ended and not chunk and self._rest:
            lines, self._rest = [self._rest], b""
        return lines

    def _last_words(self) -> str:
        """The last line it wrote to its error stream: usually the reason."""
        with self._errors.open("rb") as file:
            file.seek(max(0, self._errors.stat().st_size - _TAIL))
            said = file.read().decode(errors="replace").strip()
        if not said:
            return ""
        text = said.splitlines()[-1].strip()[:200]
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

"""Open backups and projects that somebody made up; a process of test_model_files.py.

Whoever makes a project knows its checksums, so settings and files are valid but for what they say.
Every command either works or refuses by an error of ours. A project that asks for more memory or
time than the limits allow ends this program.
"""

import hashlib
import resource
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import is_dataclass
from pathlib import Path
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints
from zipfile import ZipFile

import numpy as np
from click.testing import CliRunner
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from parbals.cli.main import parbals
from parbals.errors import InputError, ParbalsError
from parbals_label.project.backup import check_backup, restore_backup, write_backup
from parbals_label.project.engine import refresh
from parbals_label.project.features import store_features
from parbals_label.store.records import Submission
from parbals_label.store.settings import ProjectSettings, write_meta
from parbals_label.store.store import Store

MEMORY = 3 << 30
"""Bytes of address space; the libraries need about 1 GiB."""
CPU_SECONDS = 60
"""For one project, above those that were used before."""
N_EXAMPLES = int(sys.argv[1])
FOLDER = Path(tempfile.mkdtemp())
COMMANDS = (
    ("status", ""),
    ("export", "--renew --out -"),
    ("next", "-n 2"),
    ("measure", "-n 3"),
    ("labels review", ""),
    ("check", ""),
)
"""Words before and after the project's folder."""
INTEGERS = (0, 1, 2, 7, 29, 30, 10**5, 10**7, 10**9, 10**12, 2**63 - 1, 2**64, 10**30)
NUMBERS = (0.0, 1e-300, 0.01, 1.0, 1e6, 1e300)
WORDS = ("", "ham", "text", "random", "nuts", "words", "table", "encoder-0123456789ab", "x" * 1000)
LENGTHS = (0, 1, 1, 2, 29, 10_000)
SETTINGS = get_type_hints(ProjectSettings)
SIMPLE = {int: INTEGERS, float: NUMBERS, str: WORDS, bool: (True, False), type(None): (None,)}


def value_of(draw, kind):
    """A value of the type of a setting, however absurd, as JSON has it."""
    arguments = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return value_of(draw, draw(st.sampled_from(arguments)))
    if get_origin(kind) is Literal:
        return draw(st.sampled_from(arguments))
    if get_origin(kind) in (dict, Mapping):
        return {draw(st.sampled_from(WORDS)): draw(st.sampled_from(WORDS))}
    if get_origin(kind) is tuple and arguments[-1] is not Ellipsis:
        return [value_of(draw, inner) for inner in arguments]
    if get_origin(kind) in (tuple, list):
        values = [value_of(draw, arguments[0]) for _ in range(2)]
        length = draw(st.sampled_from(LENGTHS))
        return (values * length)[:length]
    if is_dataclass(kind):
        return {name: value_of(draw, inner) for name, inner in get_type_hints(kind).items()}
    return draw(st.sampled_from(SIMPLE[kind]))


@st.composite
def changed_settings(draw):
    """A setting of any name, with a value of the right type."""
    name = draw(st.sampled_from(sorted(SETTINGS)))
    return name, value_of(draw, SETTINGS[name])


def make_project(folder):
    with Store.create(folder, classes=["ham", "spam"], settings={"columns": ["text"]}) as store:
        store.add_items((f"m{n}", {"text": f"message {n}"}) for n in range(30))
        rows = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)
        store.update_settings(features=store_features(folder, rows))
        labels = [Submission(n, ("ham", "spam")[n % 2]) for n in range(12)]
        store.submit(labels, annotator="ann")
        refresh(store)


def use(folder):
    """All commands; each works, or says why not."""
    for before, after in COMMANDS:
        words = [*before.split(), str(folder), *after.split()]
        result = CliRunner().invoke(parbals, words)
        error = result.exception
        if error is not None and not isinstance(error, ParbalsError | SystemExit):
            raise error


def limit_time():
    """A limit for the next project: used time counts."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + CPU_SECONDS
    _, highest = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, highest))


@seed(0)
@settings(
    max_examples=N_EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
@given(changed_settings())
def changed_settings_are_refused_or_used(setting):
    name, value = setting
    folder = FOLDER / "changed"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(FOLDER / "whole", folder)
    with Store.open(folder) as store, store._db.transaction() as connection:
        write_meta(connection, store.identity, {name: value})
    limit_time()
    sys.stderr.write(f"{name} = {str(value)[:60]}\n")
    use(folder)


def rewritten(change):
    """The backup with one member changed, and checksums that fit."""
    with ZipFile(FOLDER / "b.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != "SHA256SUMS"}
    members = change(members)
    with ZipFile(FOLDER / "changed.zip", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        sums = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in members.items()]
        archive.writestr("SHA256SUMS", "".join(sums))


@seed(0)
@settings(
    max_examples=N_EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
@given(
    number=st.integers(0, 9),
    start=st.integers(0, 10**6),
    patch=st.binary(min_size=1, max_size=40),
    copies=st.sampled_from([1, 1, 1, 100, 10_000]),
)
def changed_backups_are_refused_or_restored(number, start, patch, copies):
    def change(members):
        name = sorted(members)[number % len(members)]
        data = bytearray(members[name])
        offset = start % len(data)
        data[offset : offset + len(patch)] = patch * copies
        return members | {name: bytes(data)}

    rewritten(change)
    shutil.rmtree(FOLDER / "restored", ignore_errors=True)
    limit_time()
    try:
        check_backup(FOLDER / "changed.zip")
        restore_backup(FOLDER / "changed.zip", FOLDER / "restored")
    except InputError:
        assert not (FOLDER / "restored").exists()
    else:
        use(FOLDER / "restored")


if __name__ == "__main__":
    make_project(FOLDER / "whole")
    write_backup(FOLDER / "whole", FOLDER / "b.zip")
    with closing(sqlite3.connect(FOLDER / "whole" / "project.sqlite3")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    use(FOLDER / "whole")
    shutil.rmtree(FOLDER / "whole")
    make_project(FOLDER / "whole")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    changed_settings_are_refused_or_used()
    changed_backups_are_refused_or_restored()
    sys.stdout.write("done\n")

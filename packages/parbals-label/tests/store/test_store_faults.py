"""Crashes, crowds, full disks and damaged files: no confirmed label is lost, and none is ever
wrong.

Every fault comes in a small dose by default, and at the full count with ``-m faults``.
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from dose import small_and_full
from parbals.errors import InputError, ProjectDamagedError, ProjectError
from parbals_label.store.folder import explain
from parbals_label.store.journal import Journal
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

WRITER = Path(__file__).with_name("crash_writer.py")
CLASSES = ("cat", "dog", 'it\'s "both"')
FILE = "project.sqlite3"
JOURNAL = "project.journal"


def test_a_file_that_may_not_be_opened_is_not_said_to_be_missing(tmp_path):
    """SQLite's error where a folder that may not be written to holds a -wal file."""
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    message = str(explain(error, tmp_path / FILE))
    assert "exist" not in message
    assert "permission to read it and to write to its folder" in message


def label_of(number):
    """As in the writer: another label whenever 50 items have gone round."""
    return CLASSES[(number + 2 * (number // 50)) % 3]


def make(folder, n_items=50):
    with Store.create(folder, classes=CLASSES, settings={}) as store:
        store.add_items((f"item-{n}", {"text": f"text of {n}"}) for n in range(n_items))
    return folder


def start(*arguments):
    command = [sys.executable, str(WRITER), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def serving(folder, count=1):
    """Processes that have the project open and submit what they are told; killed at the end, never
    closed."""
    children = [start("serve", folder) for _ in range(count)]
    try:
        assert all(child.stdout.readline() == "ready\n" for child in children)
        yield children
    finally:
        for child in children:
            child.kill()
            child.communicate()


def rest(child):
    """What a process that is ending has still to say (``communicate`` would lose what ``readline``
    read ahead)."""
    lines = child.stdout.read().splitlines()
    child.stdin.close()
    child.stdout.close()
    child.wait()
    return lines


def order(child, **answer):
    child.stdin.write(json.dumps(answer) + "\n")
    child.stdin.flush()


def all_answers(store):
    """Every answer by number, read through the store."""
    answers = [answer for position in range(store.n_items) for answer in store.history(position)]
    return {answer.answer: answer for answer in answers}


# Crashes


@pytest.mark.parametrize("kills", small_and_full(10, 1000))
def test_killed_at_any_moment_no_confirmed_label_is_lost_or_doubled(tmp_path, kills):
    chance = random.Random(kills)
    for lot in range(0, kills, 50):  # a fresh project now and then, or reading it all takes over
        folder = make(tmp_path / f"p{lot}")
        confirmed = 0
        for kill in range(min(50, kills)):
            # Starting one back, so that every round also repeats a request that was confirmed.
            child = start("submit", folder, "ann", max(confirmed - 1, 0), 10**6)
            if kill % 5:
                assert child.stdout.readline() == "ready\n"
                time.sleep(chance.random() * 0.05)
            else:
                time.sleep(chance.random() * 0.2)  # while it starts and opens the project
            os.kill(child.pid, signal.SIGKILL)
            said = [int(line) for line in rest(child) if line != "ready"]
            confirmed = max([confirmed, *(number + 1 for number in said)])
            with Store.open(folder) as store:
                assert store.check() == []
                requests = sorted(answer.request for answer in all_answers(store).values())
            assert len(requests) in (confirmed, confirmed + 1), (
                "at most one was stored but not yet confirmed"
            )
            assert requests == sorted(f"ann-{number}" for number in range(len(requests))), (
                "none lost, none doubled"
            )
        assert confirmed > 0
        with Store.open(folder) as store:
            before = all_answers(store)
            for number in range(len(before)):
                answer = Submission(number % store.n_items, label_of(number), f"ann-{number}")
                assert store.submit([answer], annotator="ann", revise=True).repeated == 1
            assert all_answers(store) == before
            last = {number % 50: label_of(number) for number in range(len(before))}
            assert store.current_labels() == {
                position: {"ann": label} for position, label in last.items()
            }


# Crowds


@pytest.mark.parametrize(("processes", "submits"), small_and_full((3, 30), (10, 200)))
def test_many_processes_submit_at_once_with_exact_counts(tmp_path, processes, submits):
    folder = make(tmp_path / "p", n_items=submits)
    children = [start("submit", folder, f"a{number}", 0, submits) for number in range(processes)]
    outputs = [child.communicate()[0].split() for child in children]
    assert [child.returncode for child in children] == [0] * processes, (
        "no lock error reaches a user"
    )
    assert outputs == [["ready", *map(str, range(submits))]] * processes
    with Store.open(folder) as store:
        assert store.check() == []
        labels = store.current_labels()
    assert labels == {n: {f"a{a}": label_of(n) for a in range(processes)} for n in range(submits)}


@pytest.mark.parametrize("races", small_and_full(30, 500))
def test_two_processes_race_for_one_item(tmp_path, races):
    folder = make(tmp_path / "p", n_items=races)
    with serving(folder, 2) as (one, two):

        def both(position, first, second):
            order(one, position=position, **first)
            order(two, position=position, **second)
            return sorted([one.stdout.readline().strip(), two.stdout.readline().strip()])

        for item in range(races):
            pair = {"label": "cat", "annotator": "ann"}, {"label": "dog", "annotator": "bob"}
            assert both(item, *pair) == ["new", "new"], "two people may disagree"
            pair = {"label": "cat", "annotator": "cyd"}, {"label": "dog", "annotator": "cyd"}
            assert both(item, *pair) == ["LabelConflictError", "new"], "one person has one label"
            click = {"label": "dog", "annotator": "dan", "request": f"click-{item}"}
            assert both(item, click, click) == ["new", "repeated"], "a double click counts once"
    with Store.open(folder) as store:
        assert store.check() == []
        assert len(all_answers(store)) == races * 4


def test_a_project_kept_busy_by_another_program_gives_one_clear_sentence(tmp_path, monkeypatch):
    folder = make(tmp_path / "p")
    monkeypatch.setattr("parbals_label.store.folder.BUSY_SECONDS", 0.1)
    with (
        Store.open(folder) as store,
        closing(sqlite3.connect(folder / FILE, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ProjectError, match="locked by another program"):
            store.submit([Submission(0, "cat")], annotator="ann")
        assert store.current_labels() == {}, "reading goes on"
        other.execute("ROLLBACK")
        assert store.submit([Submission(0, "cat")], annotator="ann").new == 1


# Disks and folders


@pytest.mark.parametrize(("rounds", "submits"), small_and_full((4, 30), (50, 200)))
def test_a_full_disk_confirms_nothing_that_is_not_stored_and_work_goes_on_afterwards(
    tmp_path, rounds, submits
):
    folder = make(tmp_path / "p")
    child = start("full", folder, rounds, submits, 1)
    *said, last = child.communicate()[0].splitlines()
    assert child.returncode == 0
    assert int(last.removeprefix("refused ")) >= rounds // 2, "the disk must have been full"
    with Store.open(folder) as store:
        assert store.check() == []
        assert store.current_labels() == {
            n: {"a": label_of(max(m for m in range(len(said)) if m % 50 == n))}
            for n in range(min(50, len(said)))
        }


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_folder_that_cannot_be_written_can_be_read_and_says_so():
    with tempfile.TemporaryDirectory() as outside:  # where a child without rights finds its way in
        os.chmod(outside, 0o755)
        _read_but_not_written(Path(outside) / "p")


def _read_but_not_written(folder):
    make(folder)
    with Store.open(folder) as store:
        store.submit([Submission(0, "dog")], annotator="ann")
    folder.chmod(0o555)
    (folder / FILE).chmod(0o444)
    try:
        child = start("unprivileged", folder)
        read, written, created = child.communicate()[0].splitlines()
    finally:
        folder.chmod(0o755)
    assert json.loads(read) == {"0": {"ann": "dog"}}
    assert "check" in written
    assert "permissions" in written
    assert "cannot be created" in created
    with Store.open(folder) as store:
        assert store.current_labels() == {0: {"ann": "dog"}}


@pytest.mark.parametrize("name", [FILE, f"{FILE}-wal"])
def test_a_file_removed_while_open_is_noticed_and_work_goes_on_when_it_is_back(tmp_path, name):
    folder = make(tmp_path / "p")
    with Store.open(folder) as store:
        store.submit([Submission(0, "cat")], annotator="ann")
        (folder / name).rename(tmp_path / "elsewhere")
        if name == FILE:
            with pytest.raises(ProjectError, match="There is no project"):
                store.submit([Submission(1, "cat")], annotator="ann")
            with pytest.raises(ProjectError, match="There is no project"):
                store.current_labels()
            (tmp_path / "elsewhere").rename(folder / name)
        assert store.submit([Submission(2, "cat")], annotator="ann").new == 1
    with Store.open(folder) as store:
        assert store.current_labels() == {0: {"ann": "cat"}, 2: {"ann": "cat"}}
        assert store.check() == []


def test_a_file_removed_during_a_call_is_not_confirmed(tmp_path):
    folder = make(tmp_path / "p")

    def rows():
        (folder / FILE).rename(tmp_path / "elsewhere")
        yield "late", {}

    with Store.open(folder) as store:
        with pytest.raises(ProjectError, match="not confirmed"):
            store.add_items(rows())
        (tmp_path / "elsewhere").rename(folder / FILE)
        assert store.submit([Submission(0, "cat")], annotator="ann").new == 1


# Damage


def fill(folder):
    """Answers of every kind, submitted by a process that is then killed, so that its -wal file
    stays."""
    with Store.open(folder) as store:
        for number in range(60):
            answer = Submission(
                number % 25, label_of(number), f"r{number}", f"comment {number}" * (number % 3)
            )
            store.submit([answer], annotator="ann" if number % 2 else "bob", revise=True)
        store.undo_labels([3, 7], annotator="ann")
        store.record_batch("random", 0, [(40, 1.0, 1.0)], {})
        store.record_batch("random", 0, [(41, 1.0, 1.0)], {}, queued=True)
        store.pass_over(41, "unsure", annotator="ann", request_id="p", comment="a pass")
        store.pass_over(42, "skip", annotator="bob")
        truth = store.current_labels(), all_answers(store)
    return truth


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A project that was closed: all of it is in one file."""
    folder = make(tmp_path_factory.mktemp("whole") / "p")
    return folder, fill(folder)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """A project whose last process was killed: its newest answers are in the -wal file only."""
    folder = make(tmp_path_factory.mktemp("crashed") / "p")
    fill(folder)
    with serving(folder) as (child,):
        for position in range(20):
            order(child, position=position, label="dog", annotator="eve")
            assert child.stdout.readline() == "new\n"
    twin = folder.with_name("twin")
    shutil.copytree(folder, twin)
    with Store.open(twin) as store:
        truth = store.current_labels(), all_answers(store)
    assert (folder / f"{FILE}-wal").stat().st_size > 0
    return folder, truth


def copy(source, tmp_path):
    folder = tmp_path / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    return folder


def never_wrong(folder, truth):
    """Opens with exactly the right labels, or is refused clearly and only true answers are
    salvaged."""
    labels, answers = truth
    try:
        with Store.open(folder) as store:
            stored_labels = store.current_labels()
            named = {
                item.id: stored_labels[item.position] for item in store.items(sorted(stored_labels))
            }
            assert named == {f"item-{position}": by for position, by in labels.items()}
            assert all_answers(store) == answers
            assert store.position_of(["item-3", "item-24"]) == [3, 24]
        return "sound"
    except (ProjectDamagedError, ProjectError) as error:
        sentence = str(error)
    assert "damaged" in sentence or "cannot be opened" in sentence or "is empty" in sentence
    salvaged = list(Store.salvage(folder))
    for answer in salvaged:
        true = answers[answer.answer]
        assert answer == true or (answer.item_id is None and answer.label == true.label)
    return len(salvaged) / len(answers)


@pytest.mark.parametrize("flips", small_and_full(40, 500))
@pytest.mark.parametrize(
    ("state", "name"), [("whole", FILE), ("crashed", FILE), ("crashed", f"{FILE}-wal")]
)
def test_flipped_bytes_never_give_a_wrong_label(request, tmp_path, state, name, flips):
    source, truth = request.getfixturevalue(state)
    chance = random.Random(flips)
    data = (source / name).read_bytes()
    used = [place for place, byte in enumerate(data) if byte]
    outcomes = []
    for trial in range(flips):
        folder = copy(source, tmp_path)
        offset = (
            chance.choice(used) if trial % 2 else chance.randrange(len(data))
        )  # much of a file is empty
        with (folder / name).open("r+b") as file:
            file.seek(offset)
            file.write(bytes([data[offset] ^ chance.randrange(1, 256)]))
        outcomes.append(never_wrong(folder, truth))
    rescued = [share for share in outcomes if share != "sound"]
    assert rescued, "some flips must have been noticed"
    assert set(rescued) == {1.0}, "every answer is in the journal as well"


@pytest.mark.parametrize("flips", small_and_full(20, 500))
def test_bytes_flipped_where_labels_names_and_classes_are_kept_are_noticed(whole, tmp_path, flips):
    source, truth = whole
    chance = random.Random(flips)
    data = (source / FILE).read_bytes()
    targets = (
        b"catperson",
        b"dogperson",
        b'item-3{"',
        b'item-11{"',
        b"comment 2",
        b'["cat"',
        b"personr",
        b"annotator",
    )
    for trial in range(flips):
        folder = copy(source, tmp_path)
        target = targets[trial % len(targets)]
        offset = chance.choice(
            [place for place in range(len(data)) if data.startswith(target, place)]
        )
        with (folder / FILE).open("r+b") as file:
            file.seek(offset + chance.randrange(len(target)))
            file.write(b"~")
        assert never_wrong(folder, truth) != "sound", (target, offset)


def pages_in_wal(folder):
    """Numbers of the pages in the write-ahead log: after a header of 32 bytes, frames of 24 bytes
    and a page each."""
    wal = folder / f"{FILE}-wal"
    data = wal.read_bytes() if wal.exists() else b""
    return {int.from_bytes(data[start : start + 4]) for start in range(32, len(data), 24 + 4096)}


@pytest.mark.parametrize("cuts", small_and_full(8, 50))
@pytest.mark.parametrize(
    ("state", "name"), [("whole", FILE), ("crashed", FILE), ("crashed", f"{FILE}-wal")]
)
def test_files_cut_short_never_give_a_wrong_label(request, tmp_path, state, name, cuts):
    source, truth = request.getfixturevalue(state)
    chance = random.Random(cuts)
    for _ in range(cuts):
        folder = copy(source, tmp_path)
        size = (folder / name).stat().st_size
        kept = chance.choice([0, 1, chance.randrange(size), chance.randrange(size) // 4096 * 4096])
        os.truncate(folder / name, kept)
        lost = set(range(kept // 4096 + 1, size // 4096 + 1)) if name == FILE else {0}
        harmless = lost <= pages_in_wal(
            folder
        )  # their newest content is in the log, so nothing is missing
        assert (never_wrong(folder, truth) == "sound") <= harmless


def test_a_missing_wal_file_is_noticed_until_it_is_put_back(crashed, tmp_path):
    source, truth = crashed
    folder = copy(source, tmp_path)
    (folder / f"{FILE}-wal").unlink()
    with pytest.raises(
        ProjectDamagedError,
        match=r"82 answers were confirmed but only 62 are there.*wal is missing",
    ):
        Store.open(folder)
    assert never_wrong(folder, truth) == 1.0
    shutil.copy(source / f"{FILE}-wal", folder)
    assert never_wrong(folder, truth) == "sound"


def test_an_older_copy_is_accepted_when_the_user_says_so(crashed, tmp_path):
    folder = copy(crashed[0], tmp_path)
    (folder / f"{FILE}-wal").unlink()
    (folder / JOURNAL).rename(tmp_path / "kept")
    with Store.open(folder) as store:
        assert len(all_answers(store)) == 62
    (tmp_path / "kept").rename(folder / JOURNAL)
    assert len(list(Store.salvage(folder))) == 82, "what the journal knew is not lost"


@pytest.mark.parametrize("state", ["whole", "crashed"])
@pytest.mark.parametrize("foreign", ["young", "labelled"])
def test_the_wal_file_of_another_project_is_noticed_and_does_no_harm(
    request, tmp_path, state, foreign
):
    source, truth = request.getfixturevalue(state)
    other = make(tmp_path / "other")
    with serving(other) as (child,):
        for position in range(1 if foreign == "young" else 30):
            order(child, position=position, label="cat", annotator="ann")
            child.stdout.readline()
    folder = copy(source, tmp_path)
    shutil.copy(other / f"{FILE}-wal", folder)
    (folder / f"{FILE}-shm").unlink(missing_ok=True)
    before = (folder / FILE).read_bytes()
    assert never_wrong(folder, truth) != "sound"
    assert (folder / FILE).read_bytes() == before, "looking at a damaged project changes nothing"
    (folder / f"{FILE}-wal").unlink()
    (folder / f"{FILE}-shm").unlink(missing_ok=True)
    if state == "crashed":
        shutil.copy(source / f"{FILE}-wal", folder)
    assert never_wrong(folder, truth) == "sound", "without the foreign file all is well"


def test_a_whole_foreign_project_under_our_journal_is_noticed(whole, tmp_path):
    folder = copy(whole[0], tmp_path)
    other = make(tmp_path / "other")
    shutil.copy(other / FILE, folder)
    with pytest.raises(ProjectDamagedError, match="another project"):
        Store.open(folder)


@pytest.mark.parametrize(
    "change", ["content = replace(content, 'text', 'next')", "content = CAST(content AS BLOB)"]
)
def test_check_names_a_damaged_item_that_opening_leaves_for_later(whole, tmp_path, change):
    folder = copy(whole[0], tmp_path)
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        connection.execute(f"UPDATE items SET {change} WHERE position = 4")
    with Store.open(folder) as store:
        assert store.check() == ["item 4 does not pass its checksum"]
        with pytest.raises(ProjectDamagedError, match="Item 4 does not pass"):
            store.items([4])
        with pytest.raises(ProjectDamagedError, match="Item 4 does not pass"):
            list(store.iter_items())


@pytest.mark.parametrize(
    "content", [b"", b"not a database", b"SQLite format 3\x00", os.urandom(20_000)]
)
def test_a_file_that_is_no_project_is_refused_and_salvages_nothing(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises((ProjectDamagedError, ProjectError), match=r"damaged|empty|another program"):
        Store.open(tmp_path)
    assert list(Store.salvage(tmp_path)) == []
    assert (tmp_path / FILE).read_bytes() == content
    with pytest.raises(ProjectError, match="nothing to salvage"):
        list(Store.salvage(tmp_path / "nowhere"))


def test_what_the_journal_lacks_is_salvaged_from_the_database(whole, tmp_path):
    source, (_, answers) = whole
    folder = copy(source, tmp_path)
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    (folder / JOURNAL).write_bytes(b"".join(lines[::2]))
    assert {answer.answer: answer for answer in Store.salvage(folder)} == answers
    (folder / JOURNAL).unlink()
    assert {answer.answer: answer for answer in Store.salvage(folder)} == answers


# The journal


@pytest.mark.parametrize("faults", small_and_full(20, 500))
@pytest.mark.parametrize("kind", ["flip", "cut"])
def test_a_damaged_journal_costs_nothing_and_is_made_whole(whole, tmp_path, kind, faults):
    source, truth = whole
    chance = random.Random(faults)
    data = (source / JOURNAL).read_bytes()
    for _ in range(faults):
        folder = copy(source, tmp_path)
        offset = chance.randrange(len(data))
        changed = bytes([data[offset] ^ chance.randrange(1, 256)])
        rest = b"" if kind == "cut" else changed + data[offset + 1 :]
        (folder / JOURNAL).write_bytes(data[:offset] + rest)
        salvaged = {answer.answer: answer for answer in Store.salvage(folder)}
        assert salvaged == truth[1]
        assert never_wrong(folder, truth) == "sound"
        (folder / FILE).unlink()
        salvaged = {answer.answer: answer for answer in Store.salvage(folder)}
        assert salvaged == truth[1], "what was missing was written again"


def test_a_process_that_died_before_it_wrote_its_line_leaves_it_to_the_next(tmp_path, monkeypatch):
    folder = make(tmp_path / "p")
    with Store.open(folder) as store, monkeypatch.context() as patch:
        patch.setattr(Journal, "append", lambda self, lines, must=False: None)
        store.submit([Submission(0, "cat"), Submission(1, "dog")], annotator="ann")
        store.pass_over(2, "skip", annotator="ann")
    assert not (folder / JOURNAL).exists()
    with Store.open(folder, read_only=True) as store:
        assert store.check() == []
    assert not (folder / JOURNAL).exists(), "who only reads writes nothing"
    Store.open(folder).close()
    lines = [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]
    assert [line.get("answer") or line["pass"] for line in lines] == [1, 2, 1]


def test_what_could_not_be_written_is_written_with_the_next_answer(tmp_path, monkeypatch):
    folder = make(tmp_path / "p")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with Store.open(folder) as store:
        with monkeypatch.context() as patch:
            patch.setattr("parbals_label.store.journal.os.open", full)
            assert store.submit([Submission(0, "cat")], annotator="ann").new == 1
        assert not (folder / JOURNAL).exists()
        store.submit([Submission(1, "dog")], annotator="ann")
    assert len((folder / JOURNAL).read_text().splitlines()) == 2


def test_lost_passes_are_noticed_too(tmp_path):
    folder = make(tmp_path / "p")
    before = copy(folder, tmp_path)
    with Store.open(folder) as store:
        store.pass_over(3, "unsure", annotator="ann")
    shutil.copy(folder / JOURNAL, before)
    with pytest.raises(ProjectDamagedError, match="1 passes were confirmed but only 0 are there"):
        Store.open(before)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_journal_that_is_not_a_plain_file_is_refused_and_never_followed(tmp_path, kind):
    folder = make(tmp_path / "p")
    elsewhere = tmp_path / "precious"
    elsewhere.write_text("precious")
    with Store.open(folder) as store:
        if kind == "link":
            (folder / JOURNAL).symlink_to(elsewhere)
        elif kind == "folder":
            (folder / JOURNAL).mkdir()
        else:
            os.mkfifo(folder / JOURNAL)
        assert store.submit([Submission(0, "cat")], annotator="ann").new == 1
    assert elsewhere.read_text() == "precious"
    with pytest.raises(ProjectError, match="is a link, or not a file"):
        Store.open(folder)
    (folder / JOURNAL).rename(tmp_path / "moved")
    with Store.open(folder) as store:
        assert store.current_labels() == {0: {"ann": "cat"}}
    assert len((folder / JOURNAL).read_text().splitlines()) == 1


def half_a_block(store):
    with store.transaction():
        store.submit([Submission(4, "cat")], annotator="ann")
        raise RuntimeError("power cut")


def test_answers_stored_together_share_one_write_and_a_refused_one_leaves_no_line(
    tmp_path, monkeypatch
):
    folder = make(tmp_path / "p")
    writes = []
    append = Journal.append

    def count(journal, lines, **options):
        writes.append(len(lines))
        append(journal, lines, **options)

    monkeypatch.setattr(Journal, "append", count)
    with Store.open(folder) as store:
        with store.transaction():
            store.submit([Submission(0, "cat")], annotator="ann")
            with pytest.raises(InputError):
                store.submit([Submission(1, "dog"), Submission(2, "bird")], annotator="ann")
            store.submit([Submission(3, "dog")], annotator="ann")
        with pytest.raises(RuntimeError, match="power cut"):
            half_a_block(store)
        assert store.current_labels() == {0: {"ann": "cat"}, 3: {"ann": "dog"}}
    assert writes == [2]
    assert [answer.position for answer in Store.salvage(folder)] == [0, 3]

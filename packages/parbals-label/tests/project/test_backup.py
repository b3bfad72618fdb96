"""Backups: consistent while people label; a hostile one writes only into its new folder."""

import hashlib
import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import pytest
from dose import small_and_full
from parbals.errors import InputError, ProjectDamagedError, ProjectError
from parbals.files import TEMPORARY_SUFFIX
from parbals_label.files import locked
from parbals_label.project import backup as module
from parbals_label.project.backup import (
    check_backup,
    check_project,
    restore_backup,
    write_backup,
)
from parbals_label.project.features import certified_predictions, load_features, store_features
from parbals_label.project.measuring import begin_measurement
from parbals_label.project.media import MediaError, read_image
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
SUMS = "SHA256SUMS"


def make(folder, n_items=30, **settings):
    with Store.create(folder, classes=["ham", "spam"], settings=settings) as store:
        store.add_items((f"m{n}", {"text": f"message {n}"}) for n in range(n_items))
        rows = np.arange(2 * n_items, dtype=np.float32).reshape(n_items, 2)
        store.update_settings(features=store_features(Path(folder), rows))
        store.submit([Submission(n, "ham") for n in range(5)], annotator="ann")
        store.submit([Submission(0, "spam", revise=True)], annotator="ann")
    return Path(folder)


def answers(folder):
    with Store.open(folder, read_only=True) as store:
        return [answer for n in range(store.n_items) for answer in store.history(n)]


def tree(folder):
    return {str(p.relative_to(folder)): p.is_file() and p.read_bytes() for p in folder.rglob("*")}


@pytest.fixture
def project(tmp_path):
    return make(tmp_path / "p")


@pytest.fixture
def saved(project, tmp_path):
    write_backup(project, tmp_path / "b.zip")
    return tmp_path / "b.zip"


def rebuilt(saved, file, change):
    """The backup again, as ``change`` of its {name: bytes} makes it, with checksums that fit."""
    with ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != SUMS}
    members = change(members)
    with ZipFile(file, "w", ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(ZipInfo(name) if isinstance(name, str) else name, data)
        names = [getattr(name, "filename", name) for name in members]
        sums = [hashlib.sha256(data).hexdigest() for data in members.values()]
        archive.writestr(SUMS, "".join(f"{s}  {n}\n" for n, s in zip(names, sums, strict=True)))
    return file


def refused(file, tmp_path, match):
    """Restoring says why not, and leaves everything as it was."""
    before = tree(tmp_path)
    with pytest.raises(InputError, match=match):
        restore_backup(file, tmp_path / "new")
    assert tree(tmp_path) == before


def test_a_restored_project_is_the_one_that_was_backed_up(project, saved, tmp_path):
    (project / "page-token").write_text("secret", encoding="utf-8")
    result = restore_backup(saved, tmp_path / "new")
    assert (result.items, result.answers, result.files) == (30, 6, 3)
    assert answers(tmp_path / "new") == answers(project)
    assert check_project(tmp_path / "new")[1] == []
    assert not list((tmp_path / "new").glob("page*")), "the way in stays behind"
    with Store.open(tmp_path / "new") as store:
        store.submit([Submission(9, "spam")], annotator="bob")
        assert store.check() == []
    if os.name == "posix":
        assert stat.S_IMODE(saved.stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_other_tools_can_check_and_unpack_it(saved, tmp_path):
    with ZipFile(saved) as archive:
        archive.extractall(tmp_path / "unpacked")
    if sys.platform == "linux":
        subprocess.run(["sha256sum", "-c", "--quiet", SUMS], cwd=tmp_path / "unpacked", check=True)
    assert check_project(tmp_path / "unpacked")[1] == []


@pytest.mark.parametrize("rounds", small_and_full(3, 50))
def test_a_backup_while_people_label_holds_what_was_confirmed_before_it_began(tmp_path, rounds):
    folder = make(tmp_path / "p", 200)
    confirmed = []
    stop = threading.Event()

    def label():
        with Store.open(folder) as store:
            number = 0
            while not stop.is_set():
                label = ("ham", "spam")[(number + number // 200) % 2]  # another one every time
                one = Submission(number % 200, label, f"r{number}")
                store.submit([one], annotator="bob", revise=True)
                confirmed.append(one.request_id)
                number += 1
                time.sleep(0.002)  # where a disk is fast, the project would outgrow its backups

    person = threading.Thread(target=label)
    person.start()
    try:
        for number in range(rounds):
            while len(confirmed) <= 20 * number and person.is_alive():
                time.sleep(0.01)
            before = set(confirmed)
            write_backup(folder, tmp_path / "b.zip")
            restore_backup(tmp_path / "b.zip", tmp_path / f"r{number}")
            stored_answers = [answer.request for answer in answers(tmp_path / f"r{number}")]
            assert before <= set(stored_answers)
            assert len([name for name in stored_answers if name]) == len(
                set(stored_answers) - {None}
            )
    finally:
        stop.set()
        person.join()


def test_images_in_the_folder_come_along_and_others_are_counted(tmp_path):
    paths = ["a.png", "sub/b.png", "/etc/hostname.png", "../outside.png", "link.png"]
    with Store.create(
        tmp_path / "p", classes=["a", "b"], settings={"encoded_columns": ["image"]}
    ) as store:
        store.add_items((path, {"image": path}) for path in paths)
    (tmp_path / "p" / "sub").mkdir()
    (tmp_path / "outside.png").write_bytes(PNG)
    for path in paths[:2]:
        (tmp_path / "p" / path).write_bytes(PNG)
    (tmp_path / "p" / "link.png").symlink_to(tmp_path / "outside.png")
    result = write_backup(tmp_path / "p", tmp_path / "b.zip")
    assert (result.files, result.images_elsewhere) == (4, 3)
    restore_backup(tmp_path / "b.zip", tmp_path / "new")
    assert (tmp_path / "new" / "sub" / "b.png").read_bytes() == PNG
    assert not (tmp_path / "new" / "link.png").exists()


def test_a_folder_of_images_that_the_sender_chose_is_not_shown(tmp_path):
    photo = tmp_path / "photo.png"
    photo.write_bytes(PNG)
    settings = {"encoded_columns": ["image"], "media": "/"}
    with Store.create(tmp_path / "p", classes=["a", "b"], settings=settings) as store:
        paths = ("own.png", photo.resolve().relative_to("/").as_posix())
        store.add_items((path, {"image": path}) for path in paths)
    (tmp_path / "p" / "own.png").write_bytes(PNG)
    write_backup(tmp_path / "p", tmp_path / "b.zip")
    assert restore_backup(tmp_path / "b.zip", tmp_path / "new").images_left == "/"
    assert (
        restore_backup(tmp_path / "b.zip", tmp_path / "kept", keep_links=True).images_left is None
    )
    with Store.open(tmp_path / "new") as store:
        assert read_image(store, 0)[1] == PNG
        with pytest.raises(MediaError, match="not in the folder"):
            read_image(store, 1)
    with Store.open(tmp_path / "kept") as store:
        assert read_image(store, 1)[1] == PNG


def test_a_damaged_project_does_not_replace_a_good_backup(project, saved):
    good = saved.read_bytes()
    file = project / "project.sqlite3"
    file.write_bytes(file.read_bytes().replace(b'"message 7"', b'"message 8"'))
    with pytest.raises(ProjectDamagedError, match="item 7 does not pass its checksum"):
        write_backup(project, saved)
    assert saved.read_bytes() == good
    assert [path.name for path in saved.parent.glob(".*")] == []


def test_predictions_that_are_gone_are_left_out_and_features_are_missed(project, tmp_path):
    with Store.open(project) as store:
        rows = np.full((30, 2), 0.5, dtype=np.float32)
        matrix = store_features(project, rows, "predictions")
        store.update_settings(predictions={
            "file": matrix.file, "digest": matrix.digest, "shape": matrix.shape, "answers": 6,
        })  # fmt: skip
    assert write_backup(project, tmp_path / "b.zip").files == 4
    (project / matrix.file).unlink()
    assert write_backup(project, tmp_path / "b.zip").files == 3
    assert restore_backup(tmp_path / "b.zip", tmp_path / "new").items == 30
    next(project.glob("features-*")).unlink()
    with pytest.raises(ProjectDamagedError, match="is missing"):
        write_backup(project, tmp_path / "b.zip")


def test_predictions_that_a_certificate_is_about_come_along(project, tmp_path):
    """They are not those of the settings any more when newer ones were made."""
    with Store.open(project) as store:
        for sure in (0.9, 0.8):
            rows = np.tile(np.float32([sure, 1 - sure]), (30, 1))
            matrix = store_features(project, rows, "predictions")
            known = {
                "file": matrix.file,
                "digest": matrix.digest,
                "shape": matrix.shape,
                "answers": 6,
            }
            store.update_settings(predictions=known)
            if sure == 0.9:
                begin_measurement(store, 10, queued=False)
    assert write_backup(project, tmp_path / "b.zip").files == 5
    restore_backup(tmp_path / "b.zip", tmp_path / "new")
    with Store.open(tmp_path / "new", read_only=True) as store:
        frozen = certified_predictions(store)
        probs = load_features(tmp_path / "new", frozen, verify=True)
    np.testing.assert_allclose(probs[:, 0], 0.9)


# From anybody


@pytest.mark.parametrize(
    "name",
    [
        "../evil.png", "/tmp/evil.png", "a/../../evil.png", "a//evil.png", "./evil.png",
        "C:\\evil.png", "C:/evil.png", "a\\..\\evil.png", ".bashrc", ".git/evil.png", "evil.py",
        "numpy.py", "page-token", "page-token/x.png", "project.sqlite3-wal",
        "PROJECT.SQLITE3", "Project.journal/x.png", "features-xyz.npy", "sub/project.sqlite3",
        "folder.png/", "a\nb.png", "a./evil.png",
    ],
)  # fmt: skip
def test_a_backup_with_a_file_that_is_not_ours_is_refused(name, saved, tmp_path):
    file = rebuilt(saved, tmp_path / "evil.zip", lambda members: members | {name: PNG})
    refused(file, tmp_path, "does not write|twice")


def test_a_link_in_a_backup_is_no_link(saved, tmp_path):
    link = ZipInfo("a.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    file = rebuilt(saved, tmp_path / "link.zip", lambda members: members | {link: b"/etc/passwd"})
    restore_backup(file, tmp_path / "new")
    assert not (tmp_path / "new" / "a.png").is_symlink()
    assert (tmp_path / "new" / "a.png").read_bytes() == b"/etc/passwd"


def test_a_bomb_is_refused_before_anything_is_written(saved, tmp_path, monkeypatch):
    packed = ZipInfo("a.png")
    packed.compress_type = ZIP_DEFLATED
    file = rebuilt(saved, tmp_path / "bomb.zip", lambda members: members | {packed: bytes(10**7)})
    assert file.stat().st_size < 10**6
    refused(file, tmp_path, "does not write")
    names = {f"{n}.png": b"" for n in range(200)}
    file = rebuilt(saved, tmp_path / "long.zip", lambda members: members | names)
    monkeypatch.setattr(module, "_MAX_DIRECTORY_BYTES", 5000)
    refused(file, tmp_path, "list of files is too long")


def test_two_members_that_share_their_bytes_are_refused(saved, tmp_path):
    """As bombs do that are larger inside than outside, without compression."""
    data = bytes(200_000)
    file = rebuilt(saved, tmp_path / "b.zip", lambda members: members | {"a.png": data})
    with ZipFile(file, "a") as archive:
        twin = ZipInfo("b.png")
        for name in ("header_offset", "CRC", "compress_size", "file_size"):
            setattr(twin, name, getattr(archive.getinfo("a.png"), name))
        archive.filelist.append(twin)
        archive._didModify = True
    refused(file, tmp_path, "more bytes than it has|damaged")


@pytest.mark.parametrize("what", ["none", "another", "missing line"])
def test_checksums_that_do_not_fit_are_refused(what, saved, tmp_path):
    with ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if what == "none":
        del members[SUMS]
    elif what == "another":
        members["project.journal"] += b"\n"
    else:
        members[SUMS] = members[SUMS].split(b"\n", 1)[1]
    with ZipFile(tmp_path / "x.zip", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    refused(tmp_path / "x.zip", tmp_path, "not what was written|do not match its files|no list")


def test_a_database_of_another_program_is_refused(saved, tmp_path):
    file = rebuilt(saved, tmp_path / "x.zip", lambda m: m | {"project.sqlite3": b"SQLite format 3"})
    refused(file, tmp_path, "was not restored")


@pytest.mark.parametrize("flips", small_and_full(40, 500))
def test_flipped_and_missing_bytes_are_noticed_or_harmless(flips, project, saved, tmp_path):
    whole = saved.read_bytes()
    chance = random.Random(flips)
    expected = answers(project)
    for number in range(flips):
        data = bytearray(whole)
        if number % 4:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        else:
            del data[chance.randrange(len(data)) :]
        (tmp_path / "x.zip").write_bytes(data)
        try:
            check_backup(tmp_path / "x.zip")
            restore_backup(tmp_path / "x.zip", tmp_path / f"n{number}")
        except InputError:
            assert not (tmp_path / f"n{number}").exists()
        else:
            assert answers(tmp_path / f"n{number}") == expected


def test_nothing_is_restored_over_what_is_there(project, saved, tmp_path):
    refused_folders = [project, tmp_path / "b.zip", tmp_path / "missing" / "new"]
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "empty").mkdir()
    for folder in (*refused_folders, tmp_path / "link"):
        with pytest.raises(InputError, match=r"exists and is not|here is no folder"):
            restore_backup(saved, folder)
    restore_backup(saved, tmp_path / "empty")
    with pytest.raises(InputError, match="There is no backup"):
        restore_backup(tmp_path / "no.zip", tmp_path / "new")
    with pytest.raises(InputError, match="not a backup of parbals"):
        restore_backup(project / "project.sqlite3", tmp_path / "new")


def entrances(folder, link, session):
    """Whom a link and a session of the project let in."""
    with Store.open(folder, read_only=True) as store:
        entry = store.session(session, "localhost:1")
        people = (store.person_of(link), entry and entry.person)
        return [person and person.name for person in people]


def test_nobody_comes_in_by_a_link_that_the_maker_of_a_backup_may_know(project, tmp_path):
    with Store.open(project) as store:
        link = store.invite("Eve", "owner")
        store.invite("Ada")
        session, _ = store.start_session(link, "localhost:1", 1e9)
        store.start_session("the page's own", "localhost:1", 1e9)
    # What the page does not write: a person who cannot be found by name.
    with closing(sqlite3.connect(project / "project.sqlite3")) as database, database:
        database.execute("UPDATE people SET key = 'nobody' WHERE name = 'Eve'")
    write_backup(project, tmp_path / "b.zip")
    assert entrances(project, link, session) == ["Eve", "Eve"]
    assert restore_backup(tmp_path / "b.zip", tmp_path / "kept", keep_links=True).links_ended == ()
    assert entrances(tmp_path / "kept", link, session) == ["Eve", "Eve"]
    result = restore_backup(tmp_path / "b.zip", tmp_path / "new")
    assert sorted(result.links_ended) == ["Ada", "Eve"]
    assert entrances(tmp_path / "new", link, session) == [None, None]
    with Store.open(tmp_path / "new") as store:
        assert [person.invited for person in store.people()] == [False, False]
        assert [event.kind for event in store.events()][-2:] == ["link revoked"] * 2
        assert store.session(session, "localhost:1") is None
        assert store.check() == []
    assert answers(tmp_path / "new") == answers(project)


def test_what_a_killed_backup_left_is_removed_by_the_next(project, tmp_path):
    leftover = tmp_path / "backups" / ".parbals-backup-killed"
    leftover.mkdir(parents=True)
    for name in (".lock", "project.sqlite3"):
        (leftover / name).write_bytes(b"x")
    busy = tmp_path / "backups" / ".parbals-backup-busy"
    busy.mkdir()
    half = tmp_path / "backups" / f".{'0' * 16}{TEMPORARY_SUFFIX}"
    half.write_bytes(b"x")
    os.utime(half, (0, 0))
    fresh = half.with_name(f".{'1' * 16}{TEMPORARY_SUFFIX}")
    fresh.write_bytes(b"x")
    with locked(busy / ".lock", ProjectError("")):
        write_backup(project, tmp_path / "backups" / "b.zip")
        assert sorted(os.listdir(tmp_path / "backups")) == [fresh.name, busy.name, "b.zip"]
    assert (tmp_path / "backups" / "b.zip").stat().st_mode & 0o777 == 0o600

"""Duplicate texts are noted, labelled once, and never both in the audit and outside."""

import csv
import json
import random

import numpy as np
import pytest
from message_projects import run  # noqa: F401
from parbals_label.project import duplicates
from parbals_label.project.choose import choose_batch
from parbals_label.project.create import Roles, create_project
from parbals_label.project.export_records import export_records
from parbals_label.project.grow import add_items
from parbals_label.project.quick import quick_batch
from parbals_label.project.summary import overview
from parbals_label.project.summary_lines import overview_lines
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from parbals_label.web.items import list_items

TEXTS = [f"message number {n} about {n % 7} things" for n in range(60)]
WORDS = """river cheese window planet doctor garden music engine winter letter bridge coffee market
pencil forest silver ticket island button candle mirror summer pocket rocket farmer dinner orange
purple school kitchen blanket hammer ladder monkey needle oyster parrot quarry rabbit saddle"""
COPIES = {60: 3, 61: 3, 62: 9}
ALL = {"label": None, "annotator": None, "query": None, "after": -1, "limit": 50}


@pytest.fixture
def made(tmp_path):
    """Sixty texts, three that repeat some of them, an empty one and a huge one."""
    rows = [*TEXTS, TEXTS[3], f"  {TEXTS[3]} ", TEXTS[9], "", "long " * 5000]
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows([["text"], *([row] for row in rows)])
    roles = Roles(text=("text",), id="")
    return create_project(tmp_path / "p", tmp_path / "t.csv", roles, ["a", "b"], {}, audit=20)


@pytest.fixture
def store(made, tmp_path):
    with Store.open(tmp_path / "p") as store:
        yield store


def test_they_are_told_when_a_project_is_made(made, store):
    assert dict(store.settings.copies) == COPIES
    words = " ".join(made.notes)
    assert "3 duplicates: each text is labelled once." in words
    assert "1 text is empty." in words
    assert "1 text has more than 20,000 characters." in words


def test_a_copy_is_never_asked_for_and_never_in_the_audit(store):
    assert not COPIES.keys() & set(store.settings.audit)
    store.submit([Submission(n, "ab"[n % 2]) for n in range(20)], annotator="ann")
    _, batch = choose_batch(store, 30, fewer=True)
    assert not COPIES.keys() & set(batch.indices.tolist())
    while quick_batch(store, 100, queued=False) is not None:
        pass
    assert not COPIES.keys() & set(store.pending())


def test_a_copy_has_the_label_of_the_first_and_a_contradiction_is_listed(store, run):  # noqa: F811
    store.submit([Submission(3, "a"), Submission(9, "a")], annotator="ann")
    store.submit([Submission(9, "b")], annotator="bob")
    store.submit([Submission(61, "b")], annotator="import", source="import")
    rows = {record["id"]: record for record in export_records(store)}
    assert (rows["61"]["label"], rows["61"]["annotators"]) == ("a", "copy of 4")
    assert (rows["62"]["label"], rows["4"]["votes"], rows["4"]["agreement"]) == ("b", "a:1", 1.0)
    assert (rows["10"]["votes"], rows["10"]["agreement"]) == ("a:1;b:1", 0.5)
    reply = json.loads(run("labels", "review", store.folder, "--json"))
    assert reply["same_text_other_label"] == ["4 is a and 62, the same text, is b"]


def test_ties_are_counted_and_listed(store):
    store.submit([Submission(3, "a"), Submission(9, "a")], annotator="ann")
    store.submit([Submission(9, "b"), Submission(3, "a")], annotator="bob")
    seen = overview(store)
    assert seen.ties == 1
    assert any(line.startswith("1 item is tied") for line in overview_lines(seen))
    assert [row.position for row in list_items(store, state="tied", **ALL).items] == [9]
    assert list_items(store, state="tied", only="ann", **ALL).items == []
    store.submit([Submission(9, "b")], annotator="eve")
    assert overview(store).ties == 0


def test_items_that_nearly_repeat_others_are_told_at_init_and_add(tmp_path):
    """One whose last two words are swapped, beside an exact copy, which is told as such."""

    def swapped(text):
        return " ".join([*text.split()[:-2], *text.split()[:-3:-1]])

    draw = random.Random(0)
    words = WORDS.split()
    texts = [" ".join(draw.sample(words, 12)) for _ in range(300)]
    rows = [*texts, swapped(texts[4]), texts[2]]
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *([f"t{n}", t] for n, t in enumerate(rows))])
    roles = Roles(text=("text",))
    created = create_project(tmp_path / "p", tmp_path / "t.csv", roles, ["a", "b"], {})
    assert "1 near duplicate: t300 and t4." in created.notes
    with open(tmp_path / "more.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], ["u1", swapped(texts[9])]])
    with Store.open(tmp_path / "p") as store:
        added = add_items(store, tmp_path / "more.csv")
    assert "2 near duplicates, such as t300 and t4." in added.notes


@pytest.mark.parametrize("compared", [pytest.param(20_000, marks=pytest.mark.full), 700])
def test_near_copies_by_definition(tmp_path, monkeypatch, compared):
    monkeypatch.setattr(duplicates, "_MAX_COMPARED", compared)
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(1_100, 6)) + 5.0
    for n in range(0, 1_100, 37):
        rows[n] = rows[n // 2] + 0.1 * generator.normal(size=6)
    np.save(tmp_path / "x.npy", rows.astype(np.float32))
    create_project(tmp_path / "p", tmp_path / "x.npy", Roles(), ["a", "b"], {})
    rows = rows[:compared] - rows[:compared].mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    wanted = [n for n in range(1, len(rows)) if max(rows[n] @ rows[m] for m in range(n)) >= 0.97]
    with Store.open(tmp_path / "p") as store:
        (said,) = duplicates.near_duplicate_notes(store)
        store.update_settings(copies=[(n, 0) for n in wanted[1:]])
        assert duplicates.near_duplicate_notes(store)[0].count("1 near duplicate:") == 1
    assert f"{len(wanted):,} near duplicates, such as {wanted[0] + 1} and " in said
    assert said.startswith("Of the first 700, ") == (compared == 700)

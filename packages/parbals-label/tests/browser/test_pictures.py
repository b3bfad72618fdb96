"""The documentation's pictures: the page at work on the messages that ship with the package.

They go to the folder named by PARBALS_PICTURES (``make pictures`` sets it to docs/pictures), else
nowhere.
"""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
import served
from parbals_label.project.checks import queue_checks
from parbals_label.project.create import Roles, create_project
from parbals_label.project.engine import refresh
from parbals_label.store.records import Submission
from parbals_label.store.replies import PaidReply, Replies
from parbals_label.store.store import Store
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
MOST_BYTES = 300_000
N_ITEMS = 800
LLM = "machine:some-model"
STEPS = (6, 12, 20, 30, 42)  # labels when a report was made
CHOSEN = {"k-means": range(20), "confidence": range(20, 24), "parbals-epig": range(24, 42)}


def create(folder):
    """A project of real messages; returns their true labels."""
    from parbals_bench.datasets.sms_spam import load_messages

    messages = load_messages()
    data = folder.with_suffix(".csv")
    with open(data, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["message"])
        writer.writerows([text] for text in messages.texts[:N_ITEMS])
    create_project(
        folder,
        data,
        Roles(text=("message",)),
        ["ham", "spam"],
        {"strategy": "parbals-epig", "seed": 0},
    )
    return [str(label) for label in messages.labels[:N_ITEMS]]


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    """The server of a project of real messages, labelled by two people, with its reports."""
    folder = tmp_path_factory.mktemp("pictures") / "text-messages"
    labels = create(folder)
    done = 0
    with Store.open(folder) as store:
        for strategy, places in CHOSEN.items():
            store.record_batch(strategy, 0, [(p, None, None) for p in places], {}, queued=True)
        for most in STEPS:
            for place in range(done, most):
                label = labels[place]
                people = ("Ada", "Grace") if place < 16 else ("Ada",) if place % 2 else ("Grace",)
                for person in people:
                    other = {"ham": "spam", "spam": "ham"}[label]
                    given = other if place in (5, 11) and person == "Grace" else label
                    store.submit([Submission(place, given)], annotator=person)
            done = most
            refresh(store)
        store.update_settings(
            highlight=["free", "win*", "prize*", "claim", "call", "text"],
            guidelines="Spam is what is sent to sell, to lure or to defraud.\n"
            "What friends write is ham.",
            goal_error=0.15,
        )
        spam = [p for p in range(60, N_ITEMS) if labels[p] == "spam"][:6]
        store.record_batch(
            "parbals-epig",
            0,
            [(p, 0.021 - 0.002 * i, 0.024) for i, p in enumerate(spam)],
            {},
            queued=True,
        )
    server = served.Served(folder)
    yield server
    server.stop()


@pytest.fixture
def with_llm(tmp_path):
    """The server of a project that an LLM has labelled, and whose answers people have checked."""
    folder = tmp_path / "text-messages"
    labels = create(folder)
    other = {"ham": "spam", "spam": "ham"}
    generator = np.random.default_rng(0)
    with Store.open(folder) as store:
        rows = []
        for position, label in enumerate(labels[:300]):
            confidence = generator.uniform(0.5, 1.0)
            is_right = generator.uniform() < confidence + 0.1
            comment = json.dumps({"confidence": round(confidence, 2)})
            rows.append(Submission(position, label if is_right else other[label], comment=comment))
        store.submit(rows, annotator=LLM, source="machine")
        for position in queue_checks(store, 60, LLM).positions:
            store.submit([Submission(position, labels[position])], annotator="Ada")
        store.update_settings(goal_error=0.05)
        refresh(store)
    with Replies(folder) as replies:
        for key in range(300):
            reply = PaidReply("{}", 212, 6, True, 0.000035)
            replies.expect(str(key), LLM, "some-model", reply)
    server = served.Served(folder)
    yield server
    server.stop()


@pytest.fixture
def shoot(tmp_path):
    """``shoot(tab, name)``: page-NAME.png, or a part of the page; small enough for a repository."""

    def take(tab, name, part=None):
        file = Path(os.environ.get("PARBALS_PICTURES", tmp_path)) / f"page-{name}.png"
        tab.wait_for_timeout(600)
        tab.evaluate(
            "document.activeElement?.blur()"
        )  # a focused skip link would stand on top of the page
        expect(tab.locator(".skip-link")).not_to_be_focused()
        (part or tab).screenshot(path=file)
        assert 5_000 < file.stat().st_size < MOST_BYTES, name

    return take


def at_work(ada):
    """An item, and beside it the map and the curve."""
    ada.item()
    expect(ada.page.locator(".side canvas")).to_be_visible(timeout=60_000)
    expect(ada.page.locator(".side .chart")).to_be_visible(timeout=60_000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_desk(messages, person, shoot, scheme):
    ada = person(messages, "Ada", scheme=scheme, height=998)
    at_work(ada)
    expect(ada.page.locator(".side .facts")).to_contain_text("assigned", timeout=60_000)
    ada.page.wait_for_timeout(3000)  # the map follows
    if scheme == "dark":
        ada.press("w")
    shoot(ada.page, scheme)


def test_the_phone(messages, person, shoot):
    ada = person(messages, "Ada", width=360, height=740, phone=True)
    ada.item()
    shoot(ada.page, "phone")


def test_the_map_and_the_curve(messages, person, shoot):
    ada = person(messages, "Ada", height=1496)
    at_work(ada)
    page = ada.go("overview")
    page.get_by_label("Colours of the map").select_option("class")
    canvas = page.locator("canvas")
    expect(canvas).to_be_visible(timeout=60_000)
    shoot(ada.page, "overview")


def test_the_lists(messages, person, shoot):
    ada = person(messages, "Ada")
    page = ada.go("browse")
    page.get_by_label("Show", exact=True).select_option("labelled")
    expect(page.locator(".row")).not_to_have_count(0)
    shoot(ada.page, "browse")
    page = ada.go("agreement")
    expect(page.locator(".row")).to_have_count(2)
    shoot(ada.page, "agreement")


def test_the_report_on_an_llm(with_llm, person, shoot):
    ada = person(with_llm, "Ada", width=1100, height=620)
    panel = ada.go("agreement").locator(".program-report")
    expect(panel).to_contain_text("good enough?", timeout=60_000)
    shoot(ada.page, "llm", panel)

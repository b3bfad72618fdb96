"""The panel of the target set on the overview: how it differs, and a sample that measures there."""

import csv

import pytest
import served
from message_data import message
from parbals_label.project.target import add_target
from parbals_label.store.store import Store
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
SOON = 90_000  # the worker compares, fits and draws on one core
N_ROWS = 55


@pytest.fixture
def server(serve):
    """A project with twelve labels whose model is for other messages."""

    def prepare(folder):
        served.label_some(folder, range(12))
        rows = folder.parent / "new.csv"
        with open(rows, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "message"])
            writer.writerows([f"n{number}", message(200 + number)] for number in range(N_ROWS))
        with Store.open(folder) as store:
            add_target(store, rows)

    return serve("text", prepare=prepare)


def test_the_target_is_described_shown_and_measured(server, person):
    ada = person(server)
    overview = ada.go("overview")
    panel = overview.locator(".panel", has=ada.page.get_by_text("Target set", exact=True)).first
    expect(panel).to_contain_text("new.csv · 55 items", timeout=SOON)
    expect(panel).to_contain_text("expected on the target set", timeout=SOON)
    expect(panel).to_contain_text("Items of the target set", timeout=SOON)
    layers = overview.get_by_label("Layers of the map")
    layers.select_option("both")
    expect(overview).to_contain_text("55 items of the target set", timeout=SOON)
    button = panel.get_by_role("button", name="Measure the error on the target set")
    expect(button).to_be_enabled(timeout=SOON)
    button.click()
    ada.page.get_by_role("dialog").get_by_role("button", name="Draw them").click()
    ada.says("A random sample is being drawn. Label its 55 items")
    expect(button).to_have_count(0, timeout=SOON)
    expect(overview).to_contain_text("0 of the sample's 55 items", timeout=SOON)
    with Store.open(server.folder, read_only=True) as store:
        assert len(store.settings.target_items) == N_ROWS
    ada.go("label")
    assert ada.item()


def test_without_a_target_there_is_no_panel(serve, person):
    ada = person(serve("text", prepare=lambda folder: served.label_some(folder, range(4))))
    overview = ada.go("overview")
    expect(overview.get_by_text("Progress", exact=True)).to_be_visible()
    panels = overview.locator(".panel", has=ada.page.get_by_text("Target set", exact=True))
    expect(panels.first).to_be_hidden()

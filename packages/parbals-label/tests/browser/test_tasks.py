"""Several labels, ordered classes and numbers, by keys and by clicks."""

import pytest
from person import LOOK_MS
from playwright.sync_api import expect
from served import text_project

pytestmark = pytest.mark.browser


@pytest.fixture
def at(person, tmp_path, running):
    def come(task, classes):
        folder = text_project(tmp_path / task, classes=classes, task=task)
        server = running(folder)
        return server, person(server)

    return come


@pytest.fixture
def running():
    from served import Served

    servers = []

    def start(folder):
        servers.append(Served(folder))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def test_keys_tick_labels_and_enter_confirms_them(at):
    server, ada = at("many-labels", ("sport", "money", "law"))
    first = ada.press("1")
    ada.page.keyboard.press("3")
    expect(ada.page.locator(".confirm-line p")).to_have_text("sport, law")
    ada.page.keyboard.press("1")
    expect(ada.page.locator('[data-label="sport"]')).to_have_attribute("aria-pressed", "false")
    ada.page.keyboard.press("2")
    second_shown = ada.label("Enter")
    assert second_shown == first
    expect(ada.page.locator('[aria-pressed="true"]')).to_have_count(0)
    second = ada.label("Enter")
    ada.saved()
    assert server.labels("Ada") == {first: '["law","money"]', second: "[]"}
    ada.page.keyboard.press("z")
    ada.says("Undone: no label")
    ada.page.locator('[data-label="law"]').click()
    ada.page.wait_for_timeout(LOOK_MS)
    ada.page.locator(".confirm").click()
    ada.saved()
    assert server.labels("Ada")[second] == '["law"]'
    view = ada.go("browse")
    view.locator("#browse-label").select_option("money")
    expect(view.locator(".rows .label-chip")).to_have_text(["money", "law"])
    view.locator(".rows .row").click()
    dialog = ada.page.locator("dialog")
    expect(dialog.locator(".checks input:checked")).to_have_count(2)
    dialog.locator(".checks input").first.check()
    dialog.get_by_role("button", name="Correct my answer").click()
    ada.saved()
    expect(dialog.locator(".history .label-chip").first).to_have_text("sport")
    assert server.labels("Ada")[first] == '["law","money","sport"]'


def test_a_number_is_typed_and_words_are_refused_in_a_sentence(at):
    server, ada = at("regression", None)
    first = ada.item()
    ada.page.wait_for_timeout(LOOK_MS)
    ada.page.keyboard.type("3,5")
    ada.page.keyboard.press("Enter")
    expect(ada.page.locator(".fault")).to_have_text(
        "“3,5” is not a number. Write 3.5, with a decimal point."
    )
    ada.page.locator("#number").fill("3.5 min")
    ada.page.keyboard.press("Enter")
    expect(ada.page.locator(".item-place")).not_to_have_text(f"Item {first}")
    expect(ada.page.locator(".unit")).to_have_text("min")
    ada.saved()
    assert server.labels("Ada") == {first: "3.5"}
    ada.page.keyboard.press("z")
    expect(ada.page.locator("#number")).to_have_value("3.5")


def test_ordered_classes_stand_in_order_with_a_key_each(at):
    server, ada = at("ordinal", ("poor", "fair", "good"))
    expect(ada.page.locator(".order")).to_have_text("← poorin this ordergood →")
    first = ada.label("3")
    ada.saved()
    assert server.labels("Ada") == {first: "good"}

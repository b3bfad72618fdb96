"""An owner's work on many items: a label for several, an order, ties, classes."""

import json
import re

import pytest
import served
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
SOON = 60_000


@pytest.fixture
def labelled(serve):
    """Ten labels by Grace and Ada, who differ about one item."""
    people = ("Grace", "Ada")
    return serve("text", lambda folder: served.label_some(folder, range(10), people, wrong=(3,)))


def test_several_items_get_one_label_and_a_tie_is_decided(labelled, person):
    ada = person(labelled, "Ada")
    page = ada.go("browse")
    page.get_by_label("Show", exact=True).select_option("unlabelled")
    boxes = page.locator("input.choose")
    expect(boxes.nth(5)).to_be_visible()
    boxes.nth(0).click()
    boxes.nth(2).click(modifiers=["Shift"])
    expect(page.locator(".bulk-bar")).to_contain_text("3 items selected")
    page.get_by_role("button", name="Label …").click()
    ada.page.locator("dialog[open]").get_by_role("button", name="spam").click()
    ada.says("3 items labelled spam, in bulk.")
    assert [a.item_id for a in labelled.answers("Ada") if a.source == "bulk"] == [
        "m10", "m11", "m12",
    ]  # fmt: skip
    page.get_by_label("Show", exact=True).select_option("tied")
    expect(page.locator(".row")).to_have_count(1)
    page.locator(".row").click()
    dialog = ada.page.locator("dialog[open]")
    dialog.locator("#correct-label").select_option("spam")
    dialog.get_by_role("button", name="Set as final label").click()
    expect(dialog.locator(".history")).to_contain_text("final label", timeout=SOON)
    expect(page.locator(".row")).to_have_count(0, timeout=SOON)


def test_an_owner_changes_the_classes_and_an_open_page_says_so(labelled, person):
    grace = person(labelled, "Grace")
    ada = person(labelled, "Ada")
    page = ada.go("settings")
    page.locator("#new-class").fill("advert")
    page.get_by_role("button", name="Add", exact=True).click()
    rows = page.locator(".class-rows li")
    expect(rows).to_have_count(3)
    page.get_by_role("button", name="Move up: advert").click()
    expect(rows.nth(1)).to_contain_text("advert")
    page.get_by_role("button", name="Rename: advert").click()
    ada.page.locator("#class-change").fill("offer")
    ada.page.locator("dialog[open]").get_by_role("button", name="Rename").click()
    expect(rows.nth(1)).to_contain_text("offer")
    page.get_by_role("button", name="Remove: spam").click()
    ada.says("cannot be removed")
    notices = grace.page.locator("#notices")
    expect(notices).to_contain_text("The classes were changed", timeout=SOON)
    notices.get_by_role("button", name="Show the new classes").click()
    expect(grace.page.locator("[data-label='offer']")).to_be_visible(timeout=SOON)
    expect(notices).to_be_empty()
    ada.go("label")
    expect(ada.page.locator("[data-label='offer']")).to_be_visible()  # her own change, at once


def test_merging_says_how_many_labels_move(labelled, person):
    ada = person(labelled, "Ada")
    page = ada.go("settings")
    page.locator("#new-class").fill("advert")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Merge: spam").click()
    dialog = ada.page.locator("dialog[open]")
    expect(dialog).to_contain_text("cannot be undone")
    expect(dialog.locator("label")).to_have_text(re.compile(r"Move [1-9]\d* labels? of “spam” to"))
    dialog.get_by_role("button", name="Merge").click()
    expect(dialog).to_be_visible()  # no class is preselected
    dialog.locator("#class-change").select_option("advert")
    dialog.get_by_role("button", name="Merge").click()
    ada.says("Merged spam into advert")
    expect(page.locator(".class-rows li")).to_have_count(2)


def test_a_class_that_is_added_right_after_a_page_was_opened_is_announced_there(labelled, person):
    """The page asks for the project at most every five seconds: it must not forget to."""
    ada = person(labelled, "Ada")
    settings = ada.go("settings")
    settings.locator("#new-class").fill("advert")
    grace = person(labelled, "Grace")
    grace.page.clock.install()
    grace.page.reload()
    expect(grace.page.locator("[data-label='spam']")).to_be_visible(timeout=SOON)
    settings.get_by_role("button", name="Add", exact=True).click()
    expect(settings.locator(".class-rows li")).to_have_count(3)
    with grace.page.expect_response("**/api/live*"):
        grace.page.clock.run_for(3_100)  # it polls every three of its own seconds
    unchanged = json.dumps({"unchanged": True, "queue": None})
    grace.page.route("**/api/live*", lambda route: route.fulfill(body=unchanged))
    grace.page.clock.run_for(3_100)
    expect(grace.page.locator("[data-label='advert']")).to_be_visible(timeout=SOON)

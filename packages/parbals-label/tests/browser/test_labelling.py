"""Labelling, as people do it: keys, mouse, search box, second thoughts."""

import re

import pytest
import served
from parbals_label.project.engine import refresh
from parbals_label.store.store import Store
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
NEEDS_WORKER = False


def test_the_first_visit_asks_for_a_name_once(serve, person, browser):
    server = serve("text")
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.link)
    dialog = page.get_by_role("dialog", name="Who is labelling?")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Your name").fill("  Mary   Jackson ")
    page.keyboard.press("Enter")
    expect(page.locator("#name-text")).to_have_text("Mary Jackson")
    expect(page.locator(".item-place")).to_have_text(re.compile("Item m"))
    page.reload()
    expect(page.locator(".item-place")).to_have_text(re.compile("Item m"))
    expect(dialog).to_have_count(0)
    context.close()


def test_keyboard_alone_answers_passes_comments_and_undoes(serve, person):
    server = serve("text")
    ada = person(server)
    spam = ada.label("2")
    ham = ada.label("1")
    skipped = ada.label("s")
    unsure = ada.label("u")
    ada.press("c")
    ada.page.keyboard.type("looks like a 1 or a 2")
    ada.page.keyboard.press("Enter")
    commented = ada.label("2")
    mistaken = ada.label("1")
    ada.press("z")
    expect(ada.page.locator(".item-place")).to_have_text(f"Item {mistaken}")
    expect(ada.page.locator(".class-button.was")).to_have_text(re.compile("ham"))
    assert ada.label("2") == mistaken
    ada.saved()
    assert server.labels("Ada") == {spam: "spam", ham: "ham", commented: "spam", mistaken: "spam"}
    assert server.passes("Ada") == {skipped: "skip", unsure: "unsure"}
    answers = server.answers("Ada")
    assert [answer.comment for answer in answers if answer.item_id == commented] == [
        "looks like a 1 or a 2"
    ]
    assert [answer.label for answer in answers if answer.item_id == mistaken] == [
        "ham",
        None,
        "spam",
    ]


def test_undo_takes_back_a_skip_and_works_after_a_reload(serve, person):
    server = serve("text")
    ada = person(server)
    skipped = ada.label("s")
    ada.saved()
    ada.page.reload()
    ada.press("Backspace")
    expect(ada.page.locator(".item-place")).to_have_text(f"Item {skipped}")
    ada.label("1")
    ada.saved()
    assert server.labels("Ada") == {skipped: "ham"}
    assert server.passes("Ada") == {}


def test_the_mouse_answers_too_and_a_double_click_answers_once(serve, person):
    server = serve("text")
    ada = person(server)
    first = ada.item()
    spam = ada.page.get_by_role("button", name="spam")
    spam.dblclick()
    expect(ada.page.locator(".item-place")).not_to_have_text(f"Item {first}")
    second = ada.item()
    ada.saved()
    assert server.labels("Ada") == {first: "spam"}
    ada.page.wait_for_timeout(600)
    spam.click()
    ada.page.get_by_role("button", name="Skip").click()
    ada.saved()
    assert server.labels("Ada") == {first: "spam", second: "spam"}
    assert len(server.passes("Ada")) == 1


def test_a_key_held_down_answers_once(serve, person):
    server = serve("text")
    ada = person(server)
    first = ada.item()
    ada.page.wait_for_timeout(300)
    for _ in range(6):
        ada.page.keyboard.down("1")
    ada.page.keyboard.up("1")
    ada.saved()
    assert server.labels("Ada") == {first: "ham"}


def test_the_next_items_are_there_before_they_are_asked_for(serve, person):
    server = serve("text")
    ada = person(server)
    ada.item()
    # Whatever the server does from here on, three more items are in hand.
    ada.context.route(re.compile("/api/take"), lambda route: None)
    answered = {ada.label("1") for _ in range(3)}
    assert len(answered | {ada.item()}) == 4


def test_a_class_called_by_a_digit_has_that_key_and_the_tenth_has_one(serve, person):
    digits = serve("digits")
    ada = person(digits)
    first = ada.label("0")
    second = ada.label("1")
    ada.saved()
    assert digits.labels("Ada") == {first: "0", second: "1"}
    expect(ada.page.get_by_label("Find a class")).to_have_count(0)
    keys = ada.page.locator(".class-button kbd")
    assert keys.all_inner_texts() == [*"0123456789"]


def test_more_than_ten_classes_have_a_search_box(serve, person):
    server = serve("many")
    ada = person(server)
    first = ada.item()
    ada.page.wait_for_timeout(250)
    ada.page.keyboard.press("/")
    search = ada.page.get_by_label("Find a class")
    expect(search).to_be_focused()
    ada.page.keyboard.type("rept")
    expect(ada.page.locator(".class-button:visible")).to_have_count(3)
    ada.says("Enter chooses Reptiles 1")
    ada.page.keyboard.press("Enter")
    expect(ada.page.locator(".item-place")).not_to_have_text(f"Item {first}")
    expect(ada.page.locator(".item")).to_be_focused()
    expect(ada.page.locator(".class-button:visible")).to_have_count(12)
    ada.page.keyboard.press("/")
    ada.page.keyboard.type("1 2 s")  # words for the search, not answers
    ada.page.keyboard.press("Escape")
    second = ada.label("9")
    ada.saved()
    assert server.labels("Ada") == {first: "Reptiles 1", second: "Mammals 3"}


def test_single_keys_can_be_switched_off(serve, person):
    server = serve("text")
    ada = person(server)
    first = ada.item()
    ada.go("settings").get_by_label("Single-key shortcuts").uncheck()
    ada.go("label")
    ada.press("1")
    assert ada.item() == first
    assert server.labels("Ada") == {}


def test_what_the_model_thinks_is_hidden_until_asked_for(serve, person):
    def train(folder):
        served.label_some(folder, range(10))
        with Store.open(folder) as store:
            refresh(store)

    server = serve("text", prepare=train)
    ada = person(server)
    ada.item()
    expect(ada.page.locator("#guess")).to_be_hidden()
    expect(ada.page.locator(".why button")).to_be_visible()
    ada.press("w")
    expect(ada.page.locator("#guess")).to_be_visible()
    expect(ada.page.locator("#guess .bar-row, #guess .quiet").first).to_be_visible()


def test_the_project_labelled_to_the_end_says_so(serve, person):
    server = serve("table")
    ada = person(server)
    n_items = 20
    for _ in range(n_items - 1):
        ada.label("1")
    ada.press("2")
    expect(ada.page.get_by_role("heading", name="Everything is labelled")).to_be_visible(
        timeout=20_000
    )
    ada.saved()
    assert len(server.labels("Ada")) == n_items

"""The page in the visitor's language, which the browser tells or the visitor chooses."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_the_page_speaks_the_browsers_language_and_the_one_that_is_chosen(serve, person):
    server = serve("text")
    ada = person(server, "Ada", locale="de-AT")
    page = ada.page
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(page.locator(".item-place")).to_have_text(re.compile(r"Element \S"))
    expect(page.locator(".why-sentence")).to_have_text(re.compile("^(Ein|Das Modell) "))
    expect(page.locator(".tabs")).to_contain_text("Einstellungen")
    expect(page.locator(".class-name").first).to_have_text("ham")  # classes are not translated
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("diese Hilfe zeigen")
    page.keyboard.press("Escape")
    page.wait_for_timeout(250)
    page.keyboard.press("2")
    expect(page.locator("#saved-text")).to_have_text("Gespeichert")
    expect(page.locator(".side")).to_contain_text("1 von 60 gelabelt")
    ada.go("settings").get_by_label("Sprache").select_option("中文")
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    expect(page.get_by_role("heading", name="此浏览器")).to_be_visible()
    page.reload()
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    page.get_by_label("语言").select_option("English")
    expect(page.get_by_role("heading", name="This browser")).to_be_visible()
    ada.go("browse")
    expect(page.locator("#view-browse .summary")).to_have_text("40 of 60 items")


def test_a_visitor_without_a_link_is_told_so_in_their_language(serve, browser):
    server = serve("text")
    context = browser.new_context(locale="fr-CA")
    page = context.new_page()
    page.goto(server.address("label"))
    expect(page.locator("html")).to_have_attribute("lang", "fr")
    expect(page.get_by_role("heading")).to_have_text("Lien de connexion requis")
    context.close()

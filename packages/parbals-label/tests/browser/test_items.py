"""Every kind of item is shown well, on every kind of screen, and none of them can run code."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def overflow(tab):
    """Pixels by which the page is wider than the screen."""
    return tab.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def test_script_in_an_item_is_text_everywhere(serve, person):
    import served

    server = serve("odd")
    name = "<img src=x onerror='window.hacked=true'>"
    ada = person(server, name)
    assert ada.item() == "m20"
    expect(ada.page.locator("#name-text")).to_have_text(name)
    expect(ada.page.locator(".class-name").first).to_have_text("<i>ham</i>")
    expect(ada.page.locator(".prose")).to_have_text(served.SCRIPT)
    page = ada.go("browse")
    page.get_by_label("Search").fill("hacked")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator(".row-snippet")).to_have_text(served.SCRIPT)
    page.locator(".row").click()
    expect(ada.page.get_by_role("dialog").locator(".prose")).to_have_text(served.SCRIPT)
    ada.page.get_by_role("button", name="Add my answer").click()
    expect(ada.page.locator(".history")).to_contain_text(name)
    ada.page.keyboard.press("Escape")
    expect(ada.go("overview").get_by_role("rowheader")).to_have_text(name)
    assert ada.page.evaluate("window.hacked") is None
    assert ada.page.locator("img[src=x]").count() == 0
    assert server.labels(name) == {"m20": "<i>ham</i>"}


def test_the_content_policy_stops_what_gets_past(serve, person):
    server = serve("text")
    ada = person(server)
    ada.item()
    ada.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = true";
            document.body.append(script);
        }"""
    )
    assert ada.page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in complaint for complaint in ada.complaints)
    ada.complaints.clear()


def test_long_text_scrolls_inside_its_frame_and_the_classes_stay_in_sight(serve, person):
    server = serve("odd")
    ada = person(server)
    ada.label("1")
    stage = ada.page.locator(".stage")
    assert stage.evaluate("node => node.scrollHeight > 2 * node.clientHeight")
    expect(ada.page.get_by_role("button", name="spam")).to_be_in_viewport(ratio=1)
    stage.evaluate("node => node.scrollTo(0, 500)")
    ada.label("1")
    assert stage.evaluate("node => node.scrollTop") == 0


def test_ten_classes_fit_on_a_phone_and_each_has_its_colour(serve, person):
    ada = person(serve("digits"), width=360, height=740, phone=True)
    ada.item()
    buttons = ada.page.locator(".class-button")
    expect(buttons).to_have_count(10)
    for button in buttons.all():
        expect(button).to_be_in_viewport(ratio=1)
    colours = "nodes => nodes.map(node => getComputedStyle(node).backgroundColor)"
    assert len(set(ada.page.locator(".class-button .swatch").evaluate_all(colours))) == 10


def test_a_phone_shows_that_a_text_goes_on(serve, person):
    server = serve("odd")
    ada = person(server, width=360, height=740, phone=True)
    stage = ada.page.locator(".stage")
    ada.item()
    expect(stage).not_to_have_class(re.compile("goes-on"))  # a short one is seen whole
    ada.label("1")
    expect(stage).to_have_class(re.compile("goes-on"))
    assert "gradient" in stage.evaluate("node => getComputedStyle(node).maskImage")
    stage.evaluate("node => node.scrollTo(0, node.scrollHeight)")
    expect(stage).not_to_have_class(re.compile("goes-on"))


def test_a_picture_is_named_by_its_file_in_browse(serve, person):
    ada = person(serve("images"))
    page = ada.go("browse")
    expect(page.locator(".row-text").first).to_have_text("00.png")
    page.locator(".row").first.click()
    expect(ada.page.get_by_role("dialog").get_by_role("heading").first).to_have_text("Item 00.png")


def test_the_name_of_an_image_file_is_not_shown_to_who_labels(serve, person):
    """It often names the class; Browse shows it."""
    ada = person(serve("numbered images"))
    assert re.fullmatch(r"\d+", ada.item())
    assert ".png" not in ada.page.locator(".work").inner_html()
    ada.go("browse").locator(".row").first.click()
    heading = ada.page.get_by_role("dialog").get_by_role("heading").first
    expect(heading).to_have_text(re.compile(r"Item \d+ · \d\d\.png"))


def test_a_picture_fits_and_can_be_zoomed(serve, person):
    server = serve("images")
    ada = person(server)
    first = ada.item()
    frame, picture, level = (
        ada.page.locator(f".stage {part}") for part in (".frame", ".picture", ".zoom-level")
    )
    expect(picture).to_have_js_property("naturalWidth", 640)  # once it has been fetched
    expect(level).to_have_text("")
    ada.page.get_by_role("button", name="Zoom in").click()
    expect(level).to_have_text("1.5×")
    frame.focus()
    ada.page.keyboard.press("+")
    expect(level).to_have_text("2.3×")
    before = picture.evaluate("image => image.style.transform")
    ada.page.keyboard.press("ArrowLeft")
    assert picture.evaluate("image => image.style.transform") != before
    ada.page.keyboard.press("0")
    expect(level).to_have_text("")
    assert ada.item() == first  # none of these keys answered
    ada.page.wait_for_timeout(250)
    ada.page.keyboard.press("2")
    expect(ada.page.locator(".item-place")).not_to_have_text(f"Item {first}")
    ada.saved()
    assert list(server.labels("Ada").values()) == ["square"]


def test_a_row_of_a_table_is_a_card(serve, person):
    ada = person(serve("table"))
    ada.item()
    card = ada.page.locator(".card")
    assert card.locator("dt").all_inner_texts() == ["rooms", "area", "city", "note"]
    expect(card).to_contain_text(re.compile("Łódź|Oslo"))


def test_several_columns_are_shown_together(serve, person):
    ada = person(serve("mail"))
    ada.item()
    assert ada.page.locator(".column-name").all_inner_texts() == ["subject", "body"]
    expect(ada.page.locator(".prose").first).to_have_text(re.compile(r"About \d+"))
    expect(ada.page.locator(".card")).to_have_text(re.compile(r"size\s*1\d\d"))


@pytest.mark.parametrize("kind", ["odd", "images", "table", "wide", "many", "mail"])
def test_a_phone_shows_everything_without_sideways_scrolling(serve, person, kind):
    server = serve(kind)
    ada = person(server, width=360, height=740, phone=True)
    first = ada.item()
    assert overflow(ada.page) <= 0
    stage = ada.page.locator(".stage")
    assert stage.evaluate("node => node.scrollWidth <= node.clientWidth"), "nor inside its frame"
    for name in ("Skip", "Unsure", "Undo"):
        expect(ada.page.get_by_role("button", name=name)).to_be_in_viewport()
    button = ada.page.locator(".class-button").first
    assert button.bounding_box()["height"] >= 44
    ada.page.wait_for_timeout(250)
    button.tap()
    expect(ada.page.locator(".item-place")).not_to_have_text(f"Item {first}")
    for page in ("overview", "browse", "agreement", "export", "settings"):
        ada.go(page)
        ada.page.wait_for_timeout(200)
        assert overflow(ada.page) <= 0, page
    ada.saved()
    assert len(server.labels("Ada")) == 1


def test_dark_follows_the_system_until_somebody_chooses(serve, person):
    ada = person(serve("text"), scheme="dark")
    ada.item()
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = ada.page.evaluate(ground)
    ada.page.get_by_role("button", name="Switch between light and dark").click()
    light = ada.page.evaluate(ground)
    assert sum(map(int, re.findall(r"\d+", light))) > sum(map(int, re.findall(r"\d+", dark)))
    ada.page.reload()
    ada.item()
    assert ada.page.evaluate(ground) == light


def test_a_narrow_window_with_keys_fits_too(serve, person):
    """With a keyboard every button shows its key, which needs more room than a phone has."""
    ada = person(serve("many"), width=360, height=740)
    ada.item()
    assert overflow(ada.page) <= 0
    for button in ada.page.locator(".class-button, .tool").all():
        box = button.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360

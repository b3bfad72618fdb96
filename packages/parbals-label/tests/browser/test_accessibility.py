"""axe-core finds nothing serious on any page, in both schemes; the keyboard reaches everything."""

import pytest
import served
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
PAGES = ("label", "overview", "browse", "agreement", "export", "settings")


@pytest.fixture(scope="module")
def axe():
    package = pytest.importorskip(
        "axe_playwright_python", reason="pip install axe-playwright-python ships axe-core"
    )
    from pathlib import Path

    return (Path(package.__file__).parent / "axe.min.js").read_text("utf-8")


def findings(tab, axe):
    """What axe calls serious or critical; it runs beside the page's policy, not under it.

    In the dark scheme only colours differ: of it, their contrast is checked.
    """
    tab.evaluate(axe)
    found = serious(tab.evaluate("axe.run(document)"), least_passes=10)
    tab.emulate_media(color_scheme="dark", reduced_motion="reduce")
    found += serious(
        tab.evaluate("axe.run(document, {runOnly: ['color-contrast']})"), least_passes=1
    )
    tab.emulate_media(color_scheme="light", reduced_motion="reduce")
    return found


def serious(result, least_passes):
    assert len(result["passes"]) >= least_passes, "axe looked at nothing"
    return [
        (found["id"], found["help"], [node["html"][:200] for node in found["nodes"]])
        for found in result["violations"]
        if found["impact"] in ("serious", "critical")
    ]


def differ(folder):
    served.label_some(folder, range(10), ("Ada", "Grace"), wrong=(3, 4))


@pytest.mark.parametrize("kind", ["text", "images", "many"])
def test_axe_finds_nothing_serious(serve, person, axe, kind):
    server = serve(kind, prepare=differ if kind == "text" else None)
    ada = person(server, "Ada")
    ada.item()
    ada.press("w")
    ada.press("c")
    for page in PAGES:
        ada.go(page)
        ada.page.wait_for_timeout(700)
        assert findings(ada.page, axe) == [], page
    ada.go("browse").locator(".row").first.click()
    expect(ada.page.get_by_role("dialog")).to_be_visible()
    assert findings(ada.page, axe) == []
    ada.page.keyboard.press("Escape")
    ada.page.keyboard.press("?")
    expect(ada.page.get_by_role("dialog", name="Help")).to_be_visible()
    assert findings(ada.page, axe) == []


def test_axe_finds_nothing_serious_in_trouble_or_on_a_phone(serve, person, axe):
    server = serve("text", prepare=differ)
    ada = person(server, "Ada", width=360, height=740, phone=True)
    ada.item()
    server.kill()
    ada.label("1")
    expect(ada.page.locator(".notice")).to_be_visible()
    ada.page.wait_for_timeout(300)
    assert findings(ada.page, axe) == []


def test_tab_reaches_the_classes_and_focus_is_seen(serve, person):
    ada = person(serve("text"))
    first = ada.item()
    expect(ada.page.locator(".item")).to_be_focused()
    for _ in range(12):
        ada.page.keyboard.press("Tab")
        if ada.page.evaluate("document.activeElement.dataset.label") == "ham":
            break
    assert ada.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    ada.page.wait_for_timeout(250)
    ada.page.keyboard.press("Enter")
    expect(ada.page.locator(".item-place")).not_to_have_text(f"Item {first}")
    expect(ada.page.locator(".item")).to_be_focused()


def test_what_happens_is_heard(serve, person):
    ada = person(serve("text"))
    ada.label("2")
    ada.says("Labelled spam.")
    ada.says("Next:")
    ada.press("z")
    ada.says("Undone: spam.")
    landmarks = ada.page.evaluate(
        "['header', 'nav', 'main', 'aside'].map(tag => document.querySelectorAll(tag).length > 0)"
    )
    assert landmarks == [True] * 4

"""A team at the page: an owner invites, somebody labels by their link, and each sees their own."""

import re

import pytest
from parbals_label.store.store import Store
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def visitor(browser, complaints):
    context = browser.new_context(viewport={"width": 1360, "height": 860})
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page


def invite(owner, name, role="Annotator"):
    """Through the form under Settings; returns the link that is shown."""
    settings = owner.go("settings")
    settings.get_by_label("Name", exact=True).fill(name)
    settings.locator("#invite-role").select_option(role)
    settings.get_by_role("button", name="Invite").click()
    shown = settings.get_by_label(f"The link of {name}", exact=True)
    expect(shown).to_be_visible()
    return shown.input_value()


def test_an_owner_invites_somebody_who_labels_by_their_link(serve, person, browser, tmp_path):
    server = serve("text")
    olga = person(server, "Olga")
    link = invite(olga, "Ada Lovelace")
    assert link.startswith(f"http://127.0.0.1:{server.port}/?token=")
    complaints = []
    ada = visitor(browser, complaints)
    addresses = []
    ada.on("request", lambda request: addresses.append((request.url, request.headers)))
    ada.goto(link)
    ada.wait_for_url(re.compile(r"/(#\w*)?$"))
    # No name is asked for: the link is the name. The token is in no address after the first.
    expect(ada.locator("#name-text")).to_have_text("Ada Lovelace")
    expect(ada.locator(".item-place")).to_have_text(re.compile(r"Item \S"))
    token = link.split("token=")[1]
    assert [url for url, _ in addresses if token in url] == [link]
    assert not any(token in headers.get("referer", "") for _, headers in addresses)
    kept = ada.evaluate("JSON.stringify([{...localStorage}, document.cookie, location])")
    assert token not in kept
    ada.go_back()  # the link's own page is not in the browser's history
    assert "token" not in ada.url
    ada.goto(server.address())
    expect(ada.locator(".item-place")).to_have_text(re.compile(r"Item \S"))
    item = ada.locator(".item-place").inner_text().removeprefix("Item ")
    ada.wait_for_timeout(250)
    ada.keyboard.press("1")
    expect(ada.locator("#saved-text")).to_have_text("Saved", timeout=20_000)
    assert server.labels("Ada Lovelace") == {item: "ham"}
    expect(ada.locator(".side")).to_contain_text("You have given 1 label", timeout=20_000)
    # An annotator has no settings of the project, no export, no map, and sees their own answers.
    for page in ("agreement", "export"):
        expect(ada.locator(f".tabs a[href='#{page}']")).to_be_hidden()
    ada.locator(".tabs a[href='#settings']").click()
    expect(ada.locator("#view-settings form")).to_have_count(0)
    expect(ada.locator("#view-settings")).to_contain_text("You are labelling as Ada Lovelace")
    ada.locator(".tabs a[href='#browse']").click()
    expect(ada.locator("#view-browse .rows .row")).to_have_count(1)
    expect(ada.locator("#browse-person")).to_have_count(0)
    ada.locator("#name-button").click()
    expect(ada.locator("#toast")).to_contain_text("This link belongs to Ada Lovelace")
    # The owner gives back what she has in hand.
    overview = olga.go("overview")
    overview.get_by_role("button", name="Release the items assigned to Ada Lovelace").click()
    olga.says("assigned to Ada Lovelace")
    # The owner sees her in the list, and takes her answer back; the log says who did what.
    browse = olga.go("browse")
    browse.get_by_label("Show", exact=True).select_option("labelled")
    browse.locator(".rows .row").first.click()
    dialog = olga.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Undo the answer of Ada Lovelace").click()
    olga.says("Undid the answer of Ada Lovelace")
    expect(dialog.locator(".history")).to_contain_text("undone")
    dialog.get_by_role("button", name="Close").click()
    assert server.labels("Ada Lovelace") == {}
    settings = olga.go("settings")
    log = settings.locator(".log tbody tr")
    expect(log.first).to_contain_text(f"undid Ada Lovelace's label of item {item}, which was ham")
    expect(log.first).to_contain_text("the page's link")
    expect(log.first).to_contain_text("127.0.0.1")
    invite(olga, "Grace", "Owner")
    olga.page.screenshot(path=tmp_path / "owner.png", full_page=True)
    # Revoked, her page says so, and nothing more is taken.
    olga.page.on("dialog", lambda question: question.accept())
    settings.get_by_role("button", name="Revoke the link of Ada Lovelace").click()
    expect(settings.locator(".table").first).not_to_contain_text("Ada Lovelace")
    ada.reload()
    expect(ada.locator("body")).to_contain_text("Sign-in link required")
    assert complaints == []
    ada.context.close()
    with Store.open(server.folder, read_only=True) as store:
        assert [event.kind for event in store.events()] == [
            "signed in", "invited", "signed in", "items given back", "label taken back", "invited",
            "link revoked",
        ]  # fmt: skip


def test_pictures_reach_an_annotator_and_answers_wait_for_their_own_link(serve, browser):
    """The address of a picture opens nothing by itself: the page fetches it with its key."""
    links = {}

    def team(folder):
        with Store.open(folder) as store:
            links.update({name: store.invite(name) for name in ("Ada", "Bob")})

    server = serve("images", prepare=team)
    complaints = []
    tab = visitor(browser, complaints)

    def open_link(name):
        tab.goto(f"http://127.0.0.1:{server.port}/?token={links[name]}")
        tab.wait_for_url(re.compile(r"/(#\w*)?$"))
        expect(tab.locator("#name-text")).to_have_text(name)
        expect(tab.locator(".item-place")).to_have_text(re.compile(r"Item \S"))
        number = int(tab.locator(".item-place").inner_text().removeprefix("Item "))
        return f"{number - 1:02}.png"  # annotators do not see names of files, which may tell

    first = open_link("Ada")
    drawn = "() => document.querySelector('.stage img.picture')?.naturalWidth === 640"
    tab.wait_for_function(drawn)
    bare = tab.context.request.get(f"http://127.0.0.1:{server.port}/api/media/0")
    assert bare.status == 401
    server.kill()
    tab.wait_for_timeout(250)
    tab.keyboard.press("1")
    expect(tab.locator("#saved-text")).to_have_text(re.compile("1 unsent"), timeout=20_000)
    # Before it is sent, Ada's page is closed, and somebody else opens their link here: a page that
    # was still open would send her answer as soon as the server is back.
    tab.goto("about:blank")
    tab.context.clear_cookies()
    server.start()
    second = open_link("Bob")
    expect(tab.locator("#notices")).to_contain_text("1 unsent answer in this browser")
    tab.wait_for_timeout(250)
    tab.keyboard.press("2")
    expect(tab.locator("#saved-text")).to_have_text("Saved", timeout=20_000)
    assert server.labels("Ada") == {}
    assert server.labels("Bob") == {second: "square"}
    open_link("Ada")
    expect(tab.locator("#saved-text")).to_have_text("Saved", timeout=20_000)
    assert server.labels("Ada") == {first: "circle"}
    tab.locator(".tabs a[href='#settings']").click()
    tab.get_by_role("button", name="Sign out").click()
    expect(tab.locator("body")).to_contain_text("Sign-in link required")
    assert complaints == []
    tab.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_another_sites_page_does_not_sign_a_browser_in_as_somebody_else(
    serve, browser, tmp_path, scheme
):
    links = {}

    def team(folder):
        with Store.open(folder) as store:
            links.update(Ada=store.invite("Ada"), Eve=store.invite("Eve"))

    server = serve("text", team)
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()

    def lure(name):
        """Another site's page, where a link of that name is clicked."""
        link = f"http://127.0.0.1:{server.port}/?token={links[name]}"
        page.goto(f"data:text/html,<a href='{link}'>free labels</a>")
        page.get_by_text("free labels").click()

    lure("Ada")  # nobody is signed in: a link in a mail opens the page
    expect(page.locator("#name-text")).to_have_text("Ada")
    lure("Ada")  # nor is anything asked where it is one's own
    expect(page.locator("#name-text")).to_have_text("Ada")
    lure("Eve")
    expect(page.locator("body")).to_contain_text(
        "You are signed in as Ada, and another page has opened a link of Eve."
    )
    page.screenshot(path=tmp_path / f"asked-{scheme}.png")
    page.get_by_text("Stay Ada").click()
    expect(page.locator("#name-text")).to_have_text("Ada")
    lure("Eve")
    page.get_by_text("Continue as Eve").click()
    expect(page.locator("#name-text")).to_have_text("Eve")
    with Store.open(server.folder, read_only=True) as store:
        assert [e.who for e in store.events() if e.kind == "signed in"] == ["Ada", "Eve"]
    context.close()

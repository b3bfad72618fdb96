"""Somebody who labels: a browser of their own, and words for what they do and see."""

import re

from playwright.sync_api import expect

LOOK_MS = 250  # longer than the page takes a second key for a bounce

# What Chromium itself writes to the console when a request fails; the page says it in its own
# words.
_EXPECTED = re.compile(r"Failed to load resource")


class Person:
    """A named visitor.

    ``complaints`` collects script errors and refused content; it must stay empty.
    """

    def __init__(
        self,
        browser,
        served,
        name,
        *,
        scheme="light",
        width=1360,
        height=860,
        phone=False,
        locale="en-US",
    ):
        self.served = served
        self.name = name
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            locale=locale,
            has_touch=phone,
            is_mobile=phone,
            accept_downloads=True,
            reduced_motion="reduce",
        )
        self.complaints = []
        self.page = self.tab()

    def tab(self, page="label"):
        """Open one more tab, through the printed link the first time."""
        tab = self.context.new_page()
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("console", self._listen)
        tab.goto(self.served.link)
        tab.wait_for_url(re.compile(r"/(#\w*)?$"))  # the link's own page goes on by itself
        tab.evaluate(
            "name => localStorage.getItem('parbals:name') ?? localStorage.setItem('parbals:name', "
            "name)",
            self.name,
        )
        tab.goto(self.served.address(page))
        tab.reload()
        return tab

    def tab_at(self, link):
        """One more tab, through another link."""
        tab = self.context.new_page()
        tab.goto(link)
        return tab

    def _listen(self, message):
        if message.type in ("error", "warning") and not _EXPECTED.search(message.text):
            self.complaints.append(message.text)

    def go(self, page):
        self.page.locator(f".tabs a[href='#{page}']").click()
        expect(self.page.locator(f"#view-{page}")).to_be_visible()
        return self.page.locator(f"#view-{page}")

    def item(self, tab=None):
        """Position-free name of the item on the screen, once there is one."""
        place = (tab or self.page).locator(".item-place")
        expect(place).to_have_text(re.compile(r"Item \S"))
        return place.inner_text().removeprefix("Item ")

    def press(self, key, tab=None):
        """Press a key as somebody does who has looked at the item."""
        tab = tab or self.page
        before = self.item(tab)
        tab.wait_for_timeout(LOOK_MS)
        tab.keyboard.press(key)
        return before

    def label(self, key, tab=None):
        """Answer with a key and wait for the next item; returns the id that was answered."""
        tab = tab or self.page
        before = self.press(key, tab)
        expect(tab.locator(".item-place")).not_to_have_text(f"Item {before}")
        return before

    def saved(self, tab=None):
        """Wait until the page says that everything is on disk."""
        expect((tab or self.page).locator("#saved-text")).to_have_text("Saved", timeout=20_000)

    def says(self, words, tab=None):
        """Wait until the page has announced a sentence with these words."""
        expect((tab or self.page).locator("#announce")).to_contain_text(words, timeout=20_000)

    def leave(self):
        self.context.close()
        assert self.complaints == [], self.complaints

"""The page: self-contained, escaped, complete, and the same every time."""

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest
from parbals_bench.datasets.sms_spam import Messages
from parbals_bench.demo.report import build_report, curves
from parbals_bench.report.plots import to_png

NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
VOID = {"meta", "img", "br", "link"}


class Page(HTMLParser):
    """Tags with their attributes, and whether every tag that opens also closes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def html(demo):
    return build_report(demo)


def test_nothing_is_loaded_from_elsewhere(html):
    page = Page(html)
    for tag, attributes in page.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed"}
        for name in ("src", "srcset"):
            assert attributes.get(name, "data:").startswith("data:")
    assert not re.search(r"url\((?!#)", html)
    assert "@import" not in html
    # Links to the data's source and licence are the only addresses, but for what messages say.
    addresses = set(re.findall(r"https?://[^\"<\s]+", html)) - NAMESPACES
    addresses = {address for address in addresses if unescape(address) not in page.text}
    assert all(
        address in {a.get("href") for t, a in page.tags if t == "a"} for address in addresses
    )


def test_the_pictures_are_inside(html):
    assert html.count("<svg") == 2


def test_the_chosen_messages_are_shown(html, demo):
    text = " ".join(Page(html).text.split())
    for batch in demo.first.values():
        for row in batch.rows:
            assert " ".join(demo.pool.texts[row].split())[:60] in text


@pytest.mark.usefixtures("quick_pictures")
def test_texts_and_notes_are_escaped(demo):
    attack = "<script>alert(1)</script> & <img src=x onerror=alert(2)> \"'"
    pool = Messages((attack,) * len(demo.pool), demo.pool.labels)
    noted = replace(demo.records["epig"][0], notes=(attack,))
    records = {**demo.records, "epig": (noted, *demo.records["epig"][1:])}
    html = build_report(replace(demo, pool=pool, records=records))
    assert "<script" not in html
    assert "<img src=x" not in html
    assert attack in Page(html).text


@pytest.mark.usefixtures("quick_pictures")
def test_long_messages_are_cut(demo):
    pool = Messages(("word " * 300,) * len(demo.pool), demo.pool.labels)
    html = build_report(replace(demo, pool=pool))
    assert "word " * 60 not in html
    assert "…" in html


@pytest.mark.usefixtures("quick_pictures")
def test_a_single_seed_has_no_interval(demo):
    single = replace(demo, records={name: runs[:1] for name, runs in demo.records.items()})
    html = build_report(single)
    assert "±" not in html
    assert "nan" not in Page(html).text


def test_nats_are_said_in_details_alone(html):
    assert "nats" in re.findall(r"\w+", html)
    shown = re.sub(r"<details>.*?</details>", "", html, flags=re.DOTALL)
    shown = re.sub(r"<svg.*?</svg>|<[^>]*>", "", shown, flags=re.DOTALL)
    assert not re.search(r"\bm?nats?\b", shown)


def test_the_data_is_credited(html):
    assert "Almeida" in html
    assert "CC BY 4.0" in html


def test_pictures_are_the_same_every_time(demo):
    assert to_png(curves(demo, "f1")) == to_png(curves(demo, "f1"))

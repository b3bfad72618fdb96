"""The page: self-contained, escaped, complete, and the same every time."""

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from parbals.datasets.sms_spam import Messages
from parbals.demo.names import DARK
from parbals.demo.plots import learning_curve_png, pool_map_png
from parbals.demo.report import build_report

PNG = b"\x89PNG\r\n\x1a\n"
VOID = {"meta", "img", "source", "br", "link"}


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
def html(result, places):
    return build_report(result, places)


def test_nothing_is_loaded_from_elsewhere(html):
    page = Page(html)
    for tag, attributes in page.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed"}
        for name in ("src", "srcset"):
            assert attributes.get(name, "data:").startswith("data:")
    assert "url(" not in html
    assert "@import" not in html
    # Links to the data's source and licence are the only addresses.
    addresses = re.findall(r"https?://[^\"<\s]+", html)
    assert all(
        address in {a.get("href") for t, a in page.tags if t == "a"} for address in addresses
    )


def test_the_pictures_are_inside_for_light_and_dark(html, result):
    images = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", html)
    assert len(images) == 2 * (len(result.settings.strategies) + 2)
    assert all(base64.b64decode(image).startswith(PNG) for image in images)
    assert all(attributes["alt"] for tag, attributes in Page(html).tags if tag == "img")


def test_the_chosen_messages_are_shown(html, result):
    text = " ".join(Page(html).text.split())
    for batch in result.first.batches.values():
        for item in batch.indices:
            assert " ".join(result.first.pool.texts[item].split())[:60] in text


@pytest.mark.usefixtures("quick_pictures")
def test_texts_and_notes_are_escaped(result, places):
    attack = "<script>alert(1)</script> & <img src=x onerror=alert(2)> \"'"
    pool = Messages((attack,) * len(result.first.pool), result.first.pool.labels)
    poisoned = replace(result, first=replace(result.first, pool=pool), notes=(attack,))
    html = build_report(poisoned, places)
    assert "<script" not in html
    assert "<img src=x" not in html
    assert attack in Page(html).text


@pytest.mark.usefixtures("quick_pictures")
def test_long_messages_are_cut(result, places):
    pool = Messages(("word " * 300,) * len(result.first.pool), result.first.pool.labels)
    html = build_report(replace(result, first=replace(result.first, pool=pool)), places)
    assert "word " * 60 not in html
    assert "…" in html


@pytest.mark.usefixtures("quick_pictures")
def test_near_duplicates_are_flagged(result, places):
    assert "repeats 1" not in build_report(_with_similarity(result, np.eye(3)), places)
    assert "repeats 1" in build_report(_with_similarity(result, np.ones((3, 3))), places)


@pytest.mark.usefixtures("quick_pictures")
def test_a_single_seed_has_no_interval(result, places):
    single = replace(result, settings=replace(result.settings, n_seeds=1), traces=result.traces[:3])
    html = build_report(single, places)
    assert "±" not in html
    assert "nan" not in Page(html).text


def test_the_data_is_credited(html):
    assert "Almeida" in html
    assert "CC BY 4.0" in html


def test_pictures_are_the_same_every_time(result, places):
    assert learning_curve_png(result) == learning_curve_png(result)
    assert pool_map_png(result, places) == pool_map_png(result, places)
    assert pool_map_png(result, places, DARK) != pool_map_png(result, places)


def test_the_map_holds_every_chosen_message(result, places):
    for batch in result.first.batches.values():
        assert set(batch.indices.tolist()) <= places.keys()
    assert all(np.isfinite(place).all() for place in places.values())


def _with_similarity(result, similarity):
    first = replace(result.first, similarity=dict.fromkeys(result.first.similarity, similarity))
    return replace(result, first=first)

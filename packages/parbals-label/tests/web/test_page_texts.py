"""Pages before the sign-in, in the language that the browser asks for."""

import pytest
from parbals_label.web.page_texts import preferred_language, translated_page
from parbals_label.web.refusals import RefusedError, refusal


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("en-GB,de;q=0.9", "en"),
        ("nl, es;q=0.5, fr;q=0.7", "fr"),
        ("zh-Hans-CN", "zh"),
        ("../../etc/passwd", "en"),
        ("de;q=nan, fr;q=0.1", "fr"),
        ("de;q= , fr", "de"),
        ("x," * 10_000 + "de", "en"),
    ],
)
def test_the_preferred_language_is_one_of_the_pages(header, language):
    assert preferred_language(header) == language


def test_a_text_is_translated_and_escaped():
    page = '<html lang=[[language]]><p title="[[the page\'s owner]]">[[<b>]]</p>'
    assert translated_page(page, "de") == (
        '<html lang=de><p title="Eigentümer der Seite">&lt;b&gt;</p>'
    )


def test_a_refused_visitor_gets_a_page_in_their_language():
    error = RefusedError(401, "token", "The link is missing.")
    assert "需要登录链接" in bytes(refusal("/", error, "zh-CN").body).decode()
    assert "Sign-in link required" in bytes(refusal("/", error).body).decode()

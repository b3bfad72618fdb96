"""Every text of the page has a translation in every language, and no translation is left over."""

import json
import re
from importlib import resources
from pathlib import Path

import parbals
import parbals_label
import pytest

WEB = Path(str(resources.files("parbals_label.web")))
STATIC = WEB / "static"
COMMENT = re.compile(r"^\s*(//|/?\*).*$", re.M)
SCRIPTS = {
    path.name: COMMENT.sub("", path.read_text("utf-8")) for path in (STATIC / "js").glob("*.js")
}
CATALOGUES = {
    path.stem: json.loads(path.read_text("utf-8")) for path in (STATIC / "texts").glob("*.json")
}
LITERAL = r'"((?:[^"\\]|\\.)*)"'
FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
UNTRANSLATED = {  # keys, header names and names of formats: the same in every language
    *("Enter", "Escape", "Backspace", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"),
    *("Content-Type", "Content-Length", "Content-Disposition", "Retry-After", "X-Parbals-Key"),
    *("BroadcastChannel", "JSON lines", "Parquet", "DOMContentLoaded"),
    "Items of the target set ",  # the beginning of a sentence of the server
}

PARTS_OF_THEIR_OWN = re.compile(
    r" (?=the model trained on the first|corrected|words|\(the extra|on$|differ clearly|\(AUC|for$"
    r"|and kept)"
)
"""Where the server joins parts of a sentence that stand at other places of the sources."""


def server_texts():
    return re.findall(
        LITERAL, SCRIPTS["server_texts.js"].split("SERVER_TEXTS = [")[1].split("];")[0]
    )


def used_keys():
    """The texts in the scripts, in the markup and in the pages before the sign-in."""
    keys = set(server_texts())
    for script in SCRIPTS.values():
        keys |= set(re.findall(rf"\b(?:t|pieces)\(\s*{LITERAL}", script))
    for page in STATIC.glob("*.html"):
        markup = page.read_text("utf-8")
        keys |= set(re.findall(r"<[^>]*\bdata-t\b(?!-)[^>]*>([^<]+)<", markup))
        keys |= set(re.findall(r'aria-label="([^"]+)" data-t-label', markup))
    for page in (WEB / "pages").glob("*.html"):
        keys |= set(re.findall(r"\[\[(.+?)\]\]", page.read_text("utf-8"))) - {"language"}
    return keys


def fields(text):
    return {name for name, _ in FIELD.findall(text)}


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_a_catalogue_has_exactly_the_texts_that_are_used(language):
    keys = used_keys()
    assert keys - set(CATALOGUES[language]) == set(), "without a translation"
    assert set(CATALOGUES[language]) - keys == set(), "no longer used"


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_a_translation_has_the_fields_of_its_text(language):
    for key, text in CATALOGUES[language].items():
        assert fields(text) == fields(key), key
        assert text.strip() == text != "", key
        for _, forms in FIELD.findall(text):
            assert forms == "" or "#" in forms, key


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_chinese_has_one_plural_form_and_the_others_have_two(language):
    expected = 1 if language == "zh" else 2
    for key, text in CATALOGUES[language].items():
        assert all(len(f.split("|")) == expected for _, f in FIELD.findall(text) if f), key


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_sentence_in_a_script_is_translated(name):
    """A literal that begins like a sentence stands in t(), pieces() or the server's list."""
    script = re.sub(rf"\b(?:t|pieces)\(\s*{LITERAL}", "", SCRIPTS[name])
    script = re.sub(r"SERVER_TEXTS = \[.*?\];", "", script, flags=re.S)
    sentences = re.findall(r'["`]([A-Z][a-z]+[^"`\n]*)["`]', script)
    assert set(sentences) - UNTRANSLATED == set()


def test_the_server_still_writes_the_sentences_that_the_page_translates():
    """Each literal part of a sentence occurs in the sources, in which a literal may be split."""
    sources = " ".join(
        path.read_text("utf-8")
        for package in (parbals, parbals_label)
        for path in Path(package.__file__).parent.rglob("*.py")
    )
    sources = re.sub(r'"\s*\n\s*f?"', "", sources)
    for text in server_texts():
        with_gaps = re.sub(r"measured (?=error|\{)|expected (?=\{)", "{source} ", text)
        for part in FIELD.sub("\0", with_gaps).split("\0"):
            for sentence in re.split(r"(?<=[.;]) |(?<=but the error) ", part):
                for phrase in PARTS_OF_THEIR_OWN.split(sentence.strip()):
                    assert phrase.strip(" .,();") in sources, text

"""No eight characters of a key are left in a text, however a server writes them."""

import base64
import json
from urllib.parse import quote

import pytest
from chat_server import KEY
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_runs import parts_of_key
from parbals_label.machines.llm.redaction import Redaction, is_possible_key

redacted = Redaction(KEY)
FORMS = {
    "whole": str,
    "in capitals": str.upper,
    "without its end": lambda text: text[:-3],
    "percent-encoded": lambda text: "".join(f"%{ord(letter):02X}" for letter in text),
    "percent-encoded twice": lambda text: quote("".join(f"%{ord(c):02x}" for c in text)),
    "escaped as in JSON": lambda text: "".join(f"\\u{ord(letter):04x}" for letter in text),
    "escaped as in programs": lambda text: "".join(f"\\x{ord(letter):02x}" for letter in text),
    "escaped as in HTML": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "escaped as in HTML, hexadecimal": lambda text: "".join(f"&#x{ord(c):X};" for c in text),
    "in base64": lambda text: base64.b64encode(text.encode()).decode(),
    "in base64 for URLs": lambda text: base64.urlsafe_b64encode(f"Bearer {text}".encode()).decode(),
    "in base64, elsewhere": lambda text: base64.b64encode(f"xBearer {text}\n".encode()).decode(),
    "in hexadecimal": lambda text: text.encode().hex(),
    "letter by letter": " ".join,
    "folded": lambda text: "\r\n\t".join(text[i : i + 6] for i in range(0, len(text), 6)),
    "over several headers": lambda text: json.dumps([text[:7], text[7:14], text[14:]]),
    "between zeros": "\0".join,
    "with a soft hyphen": "\xad".join,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("around", ["", "x", "the key is ", "A" * 256])
def test_every_form_of_a_key_is_replaced(form, around):
    written = FORMS[form](KEY)
    text = redacted(f"{around}{written}{around} and more")
    assert "…" in text
    assert text.endswith(" and more")
    assert text.startswith(around[:20])
    for start in range(len(written) - 31):  # eight characters have 32 at most in these forms
        assert written[start : start + 32] not in text
    assert parts_of_key(text.replace(" ", "")) == []


@settings(max_examples=300, deadline=None)
@given(st.text(), st.integers(0, len(KEY)), st.integers(0, len(KEY)), st.text())
def test_parts_are_replaced_from_eight_characters_on(before, start, end, after):
    part = KEY[min(start, end) : max(start, end)]
    text = redacted(before + part + after)
    assert parts_of_key(text) == []
    text.encode()


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=500))
def test_other_texts_are_left_as_they_are(text):
    assert redacted(text) == text


def test_half_characters_which_no_file_can_store_are_replaced():
    assert Redaction("")("yes \ud83d") == "yes ?"


@pytest.mark.parametrize("key", ["", "x", "EMPTY", "none"])
def test_what_local_servers_take_for_a_key_is_no_secret(key):
    assert Redaction(key)('{"label": "none"} EMPTY x') == '{"label": "none"} EMPTY x'


@pytest.mark.parametrize("text", ["a b", 'a"b', "a'b", "a\\b", "a,b", "ä", "a\n", "\x7f"])
def test_characters_that_texts_are_taken_apart_by_are_in_no_key(text):
    assert not is_possible_key(text)
    assert is_possible_key("aB3-._~+/=:|!#$%&()*;<>?@[]^`{}")

"""Spellings of a name are one name, and a name that looks like another's is refused."""

import pytest
from parbals.errors import InputError
from parbals_label.store.names import check_invited_name, check_name, looks_like, name_key
from parbals_label.store.store import Store

INVISIBLE = ["\ufe0f", "\u034f", "\u3164", "\u2800", "\u200b", "\u00ad", "\U000e0041"]


@pytest.mark.parametrize("character", INVISIBLE)
def test_an_invisible_character_makes_no_other_name(character):
    assert name_key(f"e{character}ve{character}") == name_key("eve")


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Ada", "\u0410da"),  # Cyrillic A
        ("eve", "\u0435v\u0435"),
        ("Bill", "BilI"),
        ("Bob", "B0b"),
        ("paul", "\u03c1aul"),  # Greek rho
        ("O'Neil", "O\u2019Neil"),
        ("kim", "k\u0131m"),
        ("Tom", "Torn"),
    ],
)
def test_names_that_look_alike(name, other):
    assert looks_like(name, other)
    assert looks_like(other, name)


@pytest.mark.parametrize(
    ("name", "other"), [("Zoë", "Zoe"), ("Ann", "Anne"), ("Иван", "Йван"), ("李", "王"), ("a", "b")]
)
def test_names_that_do_not(name, other):
    assert not looks_like(name, other)


@pytest.mark.parametrize(
    "name", ["root", "Root", "r\u043e\u043et", "the page's link", "The page\u2019s link"]
)
def test_nobody_is_invited_by_a_name_of_the_log(name):
    with pytest.raises(InputError, match="which the log uses"):
        check_invited_name(name)


def test_the_administrator_of_a_machine_may_label():
    assert check_name("root") == "root"


@pytest.mark.parametrize("character", INVISIBLE)
def test_an_invitation_does_not_make_a_second_eve(tmp_path, character):
    with Store.create(tmp_path / "p", classes=["ham", "spam"], settings={}) as store:
        store.invite("eve")
        store.invite(f"eve{character}")
        assert [person.name for person in store.people()] == ["eve"]

"""The text messages that ship with the package: whole, and split without leaks."""

import numpy as np
import pytest
from parbals.errors import ParbalsError
from parbals.features.text import canonical_text
from parbals_bench.datasets import sms_spam
from parbals_bench.datasets.embedded import TextFeatures
from parbals_bench.datasets.sms_spam import load_messages, split_messages


@pytest.fixture(scope="module")
def messages():
    return load_messages()


def test_counts_match_the_published_ones(messages):
    assert len(messages) == 5_574
    assert np.sum(messages.labels == "ham") == 4_827
    assert np.sum(messages.labels == "spam") == 747
    assert messages.texts[0].startswith("Go until jurong point")


def test_texts_are_what_people_typed(messages):
    assert not any("&lt;" in text or text.endswith("\r") for text in messages.texts)
    assert all(text.strip() for text in messages.texts)


def test_the_licence_travels_with_the_data():
    from importlib import resources

    notice = (
        resources.files("parbals_bench.datasets").joinpath("data", "README.md").read_text("utf-8")
    )
    assert "CC BY 4.0" in notice
    assert "Almeida" in notice


def test_a_damaged_file_is_reported(monkeypatch):
    monkeypatch.setattr(sms_spam, "_FILE", "nothing.tsv.gz")
    with pytest.raises(ParbalsError, match=r"nothing\.tsv\.gz .* cannot be read .* reinstall"):
        load_messages()


def test_a_split_uses_every_message_once_and_repeats_with_its_seed(messages):
    split = split_messages(messages, 3)
    assert sum(map(len, (split.pool, split.target, split.test))) == len(messages)
    assert sorted(split.pool.texts + split.target.texts + split.test.texts) == sorted(
        messages.texts
    )
    assert split.pool.texts == split_messages(messages, 3).pool.texts
    assert split.pool.texts != split_messages(messages, 4).pool.texts


def test_shares_are_as_asked(messages):
    split = split_messages(messages, 0)
    shares = np.array([len(split.pool), len(split.target), len(split.test)]) / len(messages)
    # Copies of a text stay together, so shares of messages follow shares of texts only roughly.
    np.testing.assert_allclose(shares, [0.6, 0.2, 0.2], atol=0.03)


@pytest.mark.parametrize("seed", range(2))
def test_no_text_lies_on_both_sides(messages, seed):
    split = split_messages(messages, seed)
    parts = split.pool, split.target, split.test
    sides = [{canonical_text(text) for text in part.texts} for part in parts]
    assert sides[0].isdisjoint(sides[1] | sides[2])
    assert sides[1].isdisjoint(sides[2])


def test_rows_of_the_pool_are_centred_and_three_long_and_later_texts_have_no_say(messages):
    pool = messages.texts[:200]
    features = TextFeatures(4).fit(pool)
    rows = features.transform(pool)
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
    assert np.sqrt(np.square(rows).sum(axis=1).mean()) == pytest.approx(3.0)
    together = features.transform([*pool[:3], "something else entirely"])
    np.testing.assert_allclose(together[:3], rows[:3])

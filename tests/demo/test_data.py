"""The data: whole, split without leaks, and represented by the pool alone."""

import numpy as np
import pytest

from parbals.demo import data
from parbals.demo.data import TextFeatures, load_messages, split_messages
from parbals.errors import ParbalsError


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

    notice = resources.files("parbals.demo").joinpath("data", "README.md").read_text("utf-8")
    assert "CC BY 4.0" in notice
    assert "Almeida" in notice


def test_a_damaged_file_is_reported(monkeypatch):
    monkeypatch.setattr(data, "_FILE", "nothing.tsv.gz")
    with pytest.raises(ParbalsError, match=r"nothing\.tsv\.gz cannot be read .* reinstall"):
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


@pytest.mark.parametrize("seed", range(5))
def test_no_text_lies_on_both_sides(messages, seed):
    split = split_messages(messages, seed)
    sides = [
        {data._canonical(text) for text in part.texts}
        for part in (split.pool, split.target, split.test)
    ]
    assert sides[0].isdisjoint(sides[1] | sides[2])
    assert sides[1].isdisjoint(sides[2])


def test_features_are_fitted_on_the_pool_alone(messages):
    """A message's features do not depend on the other messages that are transformed, or on words
    the pool lacks."""
    split = split_messages(messages, 0)
    pool, test = split.pool.texts[:300], split.test.texts[:50]
    features = TextFeatures(8).fit(pool)
    before = features.transform(pool)
    together = features.transform(test)
    alone = np.concatenate([features.transform((text,)) for text in test])
    np.testing.assert_allclose(together, alone, atol=1e-10)
    np.testing.assert_array_equal(features.transform(pool), before)
    nonsense = features.transform(("xyzzyplugh qwertzuiopq",))
    np.testing.assert_allclose(nonsense[0], -features._centre * features._factor, atol=1e-10)


def test_pool_features_are_centred_and_scaled(messages):
    texts = messages.texts[:400]
    X = TextFeatures(16, scale=3.0).fit(texts).transform(texts)
    assert X.shape == (400, 16)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(np.square(X).sum(axis=1).mean(), 9.0, rtol=1e-9)


def test_wordings_are_compared_by_cosine(messages):
    texts = messages.texts[:400]
    rows = TextFeatures(4).fit(texts).words((texts[2], texts[2].upper(), texts[0]))
    similarity = (rows @ rows.T).toarray()
    assert similarity[0, 1] == pytest.approx(1.0)
    assert similarity[0, 2] < 0.5

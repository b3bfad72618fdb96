"""Seeds in, generators out."""

import numpy as np
import pytest
from parbals.errors import InputError
from parbals.randomness import content_gumbels, derive_generator, seed_from


def test_an_integer_is_its_own_seed():
    assert seed_from(7) == seed_from(np.int64(7)) == 7


def test_a_generator_is_advanced():
    generator = np.random.default_rng(0)
    assert seed_from(generator) != seed_from(generator)
    state = np.random.RandomState(0)
    assert seed_from(state) != seed_from(state)


def test_none_is_fresh():
    assert seed_from(None) != seed_from(None)


@pytest.mark.parametrize("bad", [-1, 1.5, "seed", True])
def test_anything_else_is_refused(bad):
    with pytest.raises(InputError, match="random_state is"):
        seed_from(bad)


def test_paths_give_independent_streams():
    draws = [derive_generator(0, *path).random() for path in [("a",), ("b",), ("a", 1), ("a", 2)]]
    assert len(set(draws)) == 4
    assert derive_generator(0, "a").random() == draws[0]
    assert derive_generator(1, "a").random() != draws[0]


def test_noise_belongs_to_the_content_and_not_to_its_place():
    there = content_gumbels(0, [b"x", b"y"], 0, 4)
    swapped = content_gumbels(0, [b"y", b"x"], 0, 4)
    assert (there == swapped[::-1]).all()


def test_copies_have_noise_of_their_own():
    twins = content_gumbels(0, [b"x", b"x"], 0, 4)
    assert (twins[0] != twins[1]).all()
    later = content_gumbels(0, [b"x", b"x"], 1, 4)
    assert (twins != later).all()


def test_noise_is_gumbel():
    noise = content_gumbels(0, [str(i).encode() for i in range(200)], 0, 100)
    assert noise.mean() == pytest.approx(np.euler_gamma, abs=4 * np.pi / np.sqrt(6 * noise.size))
    assert noise.var() == pytest.approx(np.pi**2 / 6, rel=0.05)

"""Pickles are read as data: what they would run is never run, and damage is an error like any
other."""

import collections
import contextlib
import os
import pickle
import pickletools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parbals.datasets.pickles import plain_contents
from parbals.errors import InputError


class Hostile:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (self.marker,)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_nothing_in_the_file_is_run(tmp_path, protocol):
    marker = str(tmp_path / "was here")
    hostile = pickle.dumps({"data": Hostile(marker)}, protocol)
    with pytest.raises(InputError, match=r"batch asks for .*mkdir"):
        plain_contents(hostile, "batch")
    assert not os.path.exists(marker)
    pickle.loads(hostile)
    assert os.path.exists(marker)  # the same bytes do harm when they are unpickled


@pytest.mark.parametrize(
    "value", [collections.OrderedDict(a=1), complex(1, 2), np.float64(1), slice(1), len, Hostile]
)
def test_every_other_name_is_refused(value):
    with pytest.raises(InputError, match=r"could run code|does not need"):
        plain_contents(pickle.dumps(value, 4), "batch")


def test_instructions_of_other_kinds_are_refused():
    for program in (
        b"cos\nsystem\n.",
        b"(S'ls'\nios\nsystem\n.",
        b"(cos\nsystem\nS'ls'\no.",
        b"Pid\n.",
        b"\x82\x01.",
    ):
        with pytest.raises(InputError):
            plain_contents(program, "batch")


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">f4", "?"])
def test_arrays_are_read_as_they_were_written(protocol, dtype):
    array = np.arange(24).reshape(4, 6).astype(dtype)
    for written in (array, np.asfortranarray(array)):
        found = plain_contents(
            pickle.dumps({"data": written, "n": [1, 2.5, None, True, ("a", b"b")]}, protocol), "x"
        )
        np.testing.assert_array_equal(found["data"], array)
        assert found["n"] == [1, 2.5, None, True, ("a", b"b")]


def test_arrays_of_objects_are_refused():
    with pytest.raises(InputError, match="damaged"):
        plain_contents(pickle.dumps(np.array([{}, []], dtype=object), 4), "x")


def test_what_python_2_wrote_is_read(python2):
    pixels = np.arange(600, dtype=np.uint8).reshape(2, 300)
    written = python2({b"labels": [3, 7], b"data": pixels, b"filenames": [b"a.png"]})
    found = plain_contents(written, "x")
    np.testing.assert_array_equal(found[b"data"], pixels)
    assert found[b"labels"] == [3, 7]
    theirs = pickle.loads(written, encoding="bytes")
    np.testing.assert_array_equal(
        theirs[b"data"], found[b"data"]
    )  # the hand-made file is a real pickle


def test_tuples_that_double_at_every_step_end_soon():
    """Hashing or copying this would take longer than the universe has lasted."""
    program = b"\x80\x02}(K\x01K\x02\x86" + b"2\x86" * 200 + b"K\x01u."
    with pytest.raises(InputError):
        plain_contents(program, "x")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damage_is_always_one_clear_error(python2, data):
    whole = python2({b"labels": [1, 2], b"data": np.zeros((2, 5), np.uint8)})
    damaged = bytearray(whole)
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    damaged = bytes(damaged[: data.draw(st.integers(1, len(whole)))])
    with contextlib.suppress(InputError):  # any other error fails the test
        plain_contents(damaged, "x")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_at_all(content):
    try:
        plain_contents(content, "x")
    except InputError:
        return
    assert list(pickletools.genops(content))  # only a well-formed program is ever accepted

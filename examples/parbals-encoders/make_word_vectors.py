"""Makes the word vectors that come with parbals, out of all-MiniLM-L6-v2; ten minutes or so on one
core.

    python examples/parbals-encoders/make_word_vectors.py word_vectors.npz

Every word piece goes through the network by itself. The answers are centred and brought to length
1, and the 128 directions that hold most of them are kept in eight bits. A piece of rank r in the
vocabulary, which is sorted by frequency, counts log(1 + r).

What ships is what it writes, but for rounding: on another machine the pieces are the same, and
cosines of 2,000 of them differ by at most 0.003.
"""

import sys

import numpy as np
from parbals_label.encoders.sentences import INSTALL, MiniLM, sentence_weights

N_DIRECTIONS, BATCH = 128, 1024


def main() -> None:
    folder = sentence_weights()
    if folder is None or len(sys.argv) != 2:
        sys.exit(f"{__doc__}\nThe weights: {INSTALL}")
    vocabulary = (folder / "vocab.txt").read_text("utf-8").split("\n")
    kept = [n for n, piece in enumerate(vocabulary) if piece and not _is_special(piece)]
    network = MiniLM(folder)
    start, end = network.tokens("")
    parts = [
        network.encode([[start, number, end] for number in kept[at : at + BATCH]])
        for at in range(0, len(kept), BATCH)
    ]
    vectors = np.concatenate(parts).astype(np.float64)
    vectors -= vectors.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    _, directions = np.linalg.eigh(vectors.T @ vectors)
    vectors = vectors @ directions[:, ::-1][:, :N_DIRECTIONS]
    step = np.abs(vectors).max(axis=1) / 127
    np.savez_compressed(
        sys.argv[1],
        pieces=np.frombuffer("\n".join(vocabulary[number] for number in kept).encode(), np.uint8),
        vectors=np.rint(vectors / step[:, None]).astype(np.int8),
        weights=(step * np.log1p(np.arange(1, len(kept) + 1))).astype(np.float32),
    )


def _is_special(piece: str) -> bool:
    return len(piece) > 1 and piece.startswith("[") and piece.endswith("]")


if __name__ == "__main__":
    main()

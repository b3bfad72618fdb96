"""The example for a transformer's head runs on a model made on the spot, and learns something."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch: make test-integrations")
pytest.importorskip("transformers", reason="needs transformers: make test-integrations")
pytest.importorskip("datasets", reason="needs datasets: make test-integrations")

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "transformer_head"))


def test_it_chooses_and_learns():
    from select_for_head import label_for_the_head, messages, tokenise

    dataset = messages(400)
    head, asked = label_for_the_head(dataset)
    assert len(set(asked.tolist())) == 40
    truth = np.array(dataset["label"])
    probs = head.sample_proba(tokenise(dataset["text"])).mean(axis=1)
    assert np.mean(probs.argmax(axis=1) == truth) > 1 - truth.mean()  # better than "ham" always


def test_dropout_of_a_real_transformer_gives_samples():
    import parbals
    from select_for_head import messages, small_network, tokenise
    from torch_samples import DropoutSamples

    tokens = tokenise(messages(30)["text"])
    network = small_network(int(tokens["input_ids"].max()) + 1)
    samples = DropoutSamples(network, n_samples=6).sample_proba(tokens)
    assert samples.shape == (30, 6, 2)
    assert samples.std(axis=1).max() > 1e-4
    assert len(parbals.select_batch(samples, samples, 3, "epig", random_state=0)) == 3

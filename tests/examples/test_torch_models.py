"""Samples of PyTorch networks: the same functions in every call, and the network left as it was."""

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-integrations")
import parbals
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "torch_models"))
from torch_samples import DropoutSamples, EnsembleSamples, LastLayer

X = np.random.default_rng(0).standard_normal((40, 6))
Y = (X[:, 0] > 0).astype(int)


def network(seed=0, p=0.3):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(p), nn.Linear(16, 3)
    )


def assert_probabilities(samples, shape):
    assert samples.shape == shape
    np.testing.assert_allclose(samples.sum(axis=2), 1, rtol=1e-5)


def test_a_dropout_sample_is_one_function():
    model = DropoutSamples(network(), n_samples=8, block=16)
    samples = model.sample_proba(X)
    assert_probabilities(samples, (40, 8, 3))
    np.testing.assert_array_equal(model.sample_proba(X), samples)
    np.testing.assert_allclose(model.sample_proba(X[7:9]), samples[7:9], rtol=1e-5)
    assert samples.std(axis=1).max() > 0.01


def test_the_seed_decides_the_masks_and_nothing_else_does():
    first = DropoutSamples(network(), 4, seed=1).sample_proba(X)
    torch.manual_seed(99)
    state = torch.get_rng_state()
    np.testing.assert_array_equal(DropoutSamples(network(), 4, seed=1).sample_proba(X), first)
    torch.manual_seed(99)
    DropoutSamples(network(), 4, seed=1)
    assert not np.array_equal(DropoutSamples(network(), 4, seed=2).sample_proba(X), first)
    assert len(state) == len(torch.get_rng_state())


def test_dropout_averages_to_the_network_of_evaluation():
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 3))
    mean = np.log(DropoutSamples(module, 4000).sample_proba(X[:3])).mean(axis=1)
    with torch.no_grad():
        logits = module.eval()(torch.as_tensor(X[:3], dtype=torch.float32)).numpy()
    centred = [values - values.mean(axis=1, keepdims=True) for values in (mean, logits)]
    np.testing.assert_allclose(*centred, atol=0.1)


def test_the_network_is_left_as_it_was():
    module = network().train()
    module[1].eval()  # frozen by its owner
    before = {name: value.clone() for name, value in module.state_dict().items()}
    torch.manual_seed(3)
    state = torch.get_rng_state()
    DropoutSamples(module, 2).sample_proba(X)
    LastLayer(module).features(X)
    assert torch.equal(torch.get_rng_state(), state)
    assert [part.training for part in module] == [True, False, True, True, True]
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not any(part._forward_hooks for part in module)


def test_a_network_that_fails_is_left_as_it_was():
    module = network().train()
    with pytest.raises(RuntimeError):
        DropoutSamples(module, 2).sample_proba(X[:, :4])
    assert module.training
    assert not module[3]._forward_hooks


def test_channels_and_sequences():
    images = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(4 * 36, 2)
    )
    pixels = np.random.default_rng(0).random((5, 1, 8, 8))
    assert_probabilities(DropoutSamples(images, 3).sample_proba(pixels), (5, 3, 2))

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 8)
            self.drop = nn.Dropout(0.5)
            self.head = nn.Linear(8, 2)

        def forward(self, ids):
            return self.head(self.drop(self.embed(ids)).sum(dim=1))

    model = DropoutSamples(Words(), 3)
    words = np.random.default_rng(0).integers(1, 20, (5, 7))
    short = model.sample_proba({"ids": words})
    model.module.embed.weight.data[0] = 0.0  # padding adds nothing
    padded = np.concatenate([words, np.zeros((5, 2), int)], axis=1)
    np.testing.assert_allclose(model.sample_proba({"ids": padded}), short, rtol=1e-5)


def test_an_ensemble():
    samples = EnsembleSamples([network(seed, p=0.0) for seed in range(4)]).sample_proba(X)
    assert_probabilities(samples, (40, 4, 3))
    batch = parbals.select_batch(samples, samples, 3, "epig", random_state=0)
    assert len(set(batch.indices.tolist())) == 3


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_a_bayesian_last_layer(inference):
    last = LastLayer(network(), n_samples=32, inference=inference).fit(X, Y, X)
    assert_probabilities(last.sample_proba(X), (40, 32, 3))
    X_test = np.random.default_rng(1).standard_normal((1_000, 6))
    correct = last.sample_proba(X_test).mean(axis=1).argmax(axis=1) == (X_test[:, 0] > 0)
    assert correct.mean() > 0.7
    features = last.features(X)
    assert features.shape == (40, 16)
    batch = parbals.select_batch_from_model(
        last.model_, features[20:], features, 3, "epig", random_state=0
    )
    assert len(batch) == 3


def test_a_network_without_dropout_has_no_samples():
    with pytest.raises(ValueError, match="no dropout layer"):
        DropoutSamples(network(p=0.0))

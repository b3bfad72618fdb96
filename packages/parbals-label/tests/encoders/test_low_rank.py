"""Low-rank updates: gradients by definition, and plain layers in the end."""

import pytest

torch = pytest.importorskip("torch", reason="low-rank updates are of PyTorch's layers")

from parbals_label.encoders.low_rank import LowRankUpdates  # noqa: E402

RANK = 3


@pytest.fixture
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU(), torch.nn.Linear(5, 4))


def updated(network):
    """Updates whose factors are both random, as after some steps."""
    updates = LowRankUpdates(network, RANK)
    for factor in updates.factors:
        factor.data.normal_()
    updates.apply()
    return updates


def test_at_first_nothing_changes(network):
    states = torch.randn(2, 7, 6)
    before = network(states)
    updates = LowRankUpdates(network, RANK)
    updates.apply()
    assert network(states).equal(before)


def test_gradients_are_those_of_the_sum(network):
    weights = [network[i].weight.detach().clone() for i in (0, 2)]
    biases = [network[i].bias for i in (0, 2)]
    updates = updated(network)
    states = torch.randn(2, 7, 6, requires_grad=True)
    network(states).square().sum().backward()
    gradients = [states.grad, *(factor.grad for factor in updates.factors)]
    twin = states.detach().clone().requires_grad_()
    a1, b1, a2, b2 = (factor.detach().clone().requires_grad_() for factor in updates.factors)
    hidden = torch.nn.functional.linear(twin, weights[0] + b1 @ a1, biases[0])
    hidden = torch.nn.functional.gelu(hidden)
    torch.nn.functional.linear(hidden, weights[1] + b2 @ a2, biases[1]).square().sum().backward()
    for gradient, other in zip(gradients, (twin, a1, b1, a2, b2), strict=True):
        torch.testing.assert_close(gradient, other.grad, rtol=1e-4, atol=1e-4)


def test_detached_layers_compute_the_same_by_themselves(network):
    updates = updated(network)
    states = torch.randn(3, 6)
    before = network(states)
    updates.detach()
    assert network(states).equal(before)
    fresh = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU(), torch.nn.Linear(5, 4))
    fresh.load_state_dict(network.state_dict())
    assert fresh(states).equal(before)


def test_a_pooler_is_left_alone():
    network = torch.nn.ModuleDict({"layer": torch.nn.Linear(6, 5), "pooler": torch.nn.Linear(5, 4)})
    assert len(LowRankUpdates(network, RANK).factors) == 2

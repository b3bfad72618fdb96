"""Low-rank updates of the linear layers of a network (Hu et al. 2022).

Each layer computes x (W + B A)ᵀ + b with A (r, in) random and B (out, r) zero at first; only A and
B are trained. The sum W + B A is computed once a step, and no gradient of W is.
"""

from functools import partial
from typing import Any

import torch

__all__ = ["LowRankUpdates"]


class LowRankUpdates:
    """Updates of all linear layers of a network but its pooler, whose output no row depends on.

    Attributes:
        factors: A and B of each layer in turn, the weights to train.
    """

    def __init__(self, network: Any, rank: int) -> None:
        self._layers = [
            module
            for name, module in network.named_modules()
            if isinstance(module, torch.nn.Linear) and "pooler" not in name
        ]
        self._weights = [layer.weight.detach().clone() for layer in self._layers]
        self.factors: list[Any] = []
        for layer, weight in zip(self._layers, self._weights, strict=True):
            n_out, n_in = weight.shape
            a = torch.nn.Parameter(weight.new_empty(rank, n_in).normal_() / n_in**0.5)
            b = torch.nn.Parameter(weight.new_zeros(n_out, rank))
            self.factors += [a, b]
            layer.forward = partial(_forward, layer, a, b)

    def apply(self) -> None:
        """Set the layers' weights to W + B A, after A and B have changed."""
        factors = zip(self.factors[::2], self.factors[1::2], strict=True)
        with torch.no_grad():
            for layer, weight, (a, b) in zip(self._layers, self._weights, factors, strict=True):
                torch.addmm(weight, b, a, out=layer.weight)

    def detach(self) -> None:
        """Make the layers plain ones again, with the weights that they have now."""
        for layer in self._layers:
            layer.__dict__.pop("forward", None)


def _forward(layer: Any, a: Any, b: Any, states: Any) -> Any:
    return _Product.apply(states, layer.weight, layer.bias, a, b)


class _Product(torch.autograd.Function):
    """x Wᵀ + b for a W that is the sum of a constant and B A; gradients of x, A and B."""

    @staticmethod
    def forward(ctx: Any, states: Any, weight: Any, bias: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(states, weight, a, b)
        return torch.nn.functional.linear(states, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        states, weight, a, b = ctx.saved_tensors
        of_rows = gradient.flatten(end_dim=-2)
        rows = states.flatten(end_dim=-2)
        of_states = gradient @ weight if ctx.needs_input_grad[0] else None
        of_a = (of_rows @ b).T @ rows
        of_b = of_rows.T @ (rows @ a.T)
        return of_states, None, None, of_a, of_b

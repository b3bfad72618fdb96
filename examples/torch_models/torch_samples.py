"""PyTorch: predictive samples (N, K, C) of a network with dropout, of an ensemble, of a last layer.

    samples = DropoutSamples(network, n_samples=100)
    batch = parbals.select_batch(samples.sample_proba(pool), samples.sample_proba(target), 20)

Inputs are tensors, arrays or mappings of them (a tokenizer's output); the network returns logits
(n, C), or an object that has them as ``logits``. It is left as it was: weights, mode, hooks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from parbals import BayesianLogisticRegression


class DropoutSamples:
    """Monte-Carlo dropout: K networks, each with masks of its own.

    The k-th network must be the same function for every input, else predictions could not vary
    together. So its masks are drawn once, from the seed, and hold for all rows and calls: a mask
    covers the last axis of a sequence (n, T, H) and all but the first of anything else.

    Args:
        module: a network whose ``Dropout`` layers (also 1d, 2d, 3d) are to stay switched on. All
            else, such as batch normalisation, runs as in evaluation.
        n_samples: K.
        seed: decides the masks.
        block: rows that go through the network at once.
    """

    def __init__(self, module: Any, n_samples: int = 100, seed: int = 0, block: int = 256) -> None:
        kinds = (torch.nn.Dropout, torch.nn.Dropout1d, torch.nn.Dropout2d, torch.nn.Dropout3d)
        self.module, self.n_samples, self.seed, self.block = module, n_samples, seed, block
        self._layers = [m for m in module.modules() if isinstance(m, kinds) and m.p > 0]
        if not self._layers:
            raise ValueError(f"{type(module).__name__} has no dropout layer that drops anything.")
        self._masks: dict[tuple[int, int, tuple[int, ...]], Any] = {}

    def sample_proba(self, X: Any) -> np.ndarray:
        """(N, K, C) float32."""
        samples = [self._one(X, k) for k in range(self.n_samples)]
        return np.stack(samples, axis=1)

    def _one(self, X: Any, k: int) -> np.ndarray:
        handles = [
            layer.register_forward_hook(self._dropping(number, k))
            for number, layer in enumerate(self._layers)
        ]
        try:
            return _proba(self.module, X, self.block)
        finally:
            for handle in handles:
                handle.remove()

    def _dropping(self, number: int, k: int) -> Callable[[Any, Any, Any], Any]:
        def drop(layer: Any, inputs: Any, output: Any) -> Any:
            shape = _mask_shape(layer, output.shape)
            if (number, k, shape) not in self._masks:
                uniforms = np.random.default_rng([self.seed, number, k]).random(shape)
                kept = torch.from_numpy(np.float32((uniforms >= layer.p) / (1.0 - layer.p)))
                self._masks[number, k, shape] = kept
            return output * self._masks[number, k, shape].to(output)

        return drop


class EnsembleSamples:
    """Networks that were trained apart (other starts, other orders): each is one sample."""

    def __init__(self, modules: Sequence[Any], block: int = 256) -> None:
        self.modules, self.block = list(modules), block

    def sample_proba(self, X: Any) -> np.ndarray:
        """(N, K, C) float32."""
        return np.stack([_proba(module, X, self.block) for module in self.modules], axis=1)


class LastLayer:
    """The last linear layer made Bayesian: its weights' posterior, the rest of the network fixed.

    The model of that layer's inputs is a :class:`parbals.BayesianLogisticRegression`, so strategies
    in closed form can choose: ``select_batch_from_model(last.model_, last.features(pool), ...)``.

    Args:
        module: a network with a ``torch.nn.Linear`` that gives the logits.
        layer: that layer; by default the last linear one of ``module.modules()``.
        block: rows that go through the network at once.
        settings: of :class:`parbals.BayesianLogisticRegression`.
    """

    def __init__(self, module: Any, layer: Any = None, block: int = 256, **settings: Any) -> None:
        linear = [m for m in module.modules() if isinstance(m, torch.nn.Linear)]
        self.module, self.layer = module, linear[-1] if layer is None else layer
        self.block, self.settings = block, settings

    def features(self, X: Any) -> np.ndarray:
        """(N, H): what the layer is given for every row."""
        caught: list[Any] = []
        handle = self.layer.register_forward_hook(lambda layer, inputs, _: caught.append(inputs[0]))
        try:
            _proba(self.module, X, self.block)
        finally:
            handle.remove()
        return torch.cat([part.reshape(len(part), -1).float().cpu() for part in caught]).numpy()

    def fit(self, X: Any, y: Any, X_pool: Any = None) -> Self:
        """Learn from inputs and class numbers 0..C-1; ``X_pool`` helps to choose the prior."""
        classes = np.arange(self.layer.out_features)
        model = BayesianLogisticRegression(classes=classes, **self.settings)
        pool = None if X_pool is None else self.features(X_pool)
        self.model_ = model.fit(self.features(X), np.asarray(y), X_pool=pool)
        return self

    def sample_proba(self, X: Any) -> np.ndarray:
        """(N, K, C) float32."""
        return self.model_.sample_proba(self.features(X))


def _mask_shape(layer: Any, shape: Any) -> tuple[int, ...]:
    """Of a mask that holds for every row: sequences may differ in length, so it spans them."""
    if not isinstance(layer, torch.nn.Dropout):
        return (1, shape[1], *[1] * (len(shape) - 2))  # whole channels
    return (1, 1, shape[2]) if len(shape) == 3 else (1, *shape[1:])


def _proba(module: Any, X: Any, block: int) -> np.ndarray:
    """(N, C) probabilities, as in evaluation, without gradients."""
    device = next((p.device for p in module.parameters()), None)
    with _evaluating(module), torch.no_grad():
        parts = [_logits(module, rows, device) for rows in _blocks(X, block)]
    return torch.softmax(torch.cat(parts).float(), dim=1).cpu().numpy()


def _logits(module: Any, rows: Any, device: Any) -> Any:
    if isinstance(rows, Mapping):
        output = module(**{name: value.to(device) for name, value in rows.items()})
    else:
        output = module(rows.to(device))
    return getattr(output, "logits", output)


def _blocks(X: Any, size: int) -> Iterator[Any]:
    """Rows as tensors, a block at a time."""
    if isinstance(X, Mapping):
        columns = {name: torch.as_tensor(value) for name, value in X.items()}
        n_rows = len(next(iter(columns.values())))
        for first in range(0, n_rows, size):
            yield {name: value[first : first + size] for name, value in columns.items()}
        return
    rows = torch.as_tensor(X)
    rows = rows.float() if rows.dtype == torch.float64 else rows
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Evaluation mode for every part; each gets its own mode back."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode

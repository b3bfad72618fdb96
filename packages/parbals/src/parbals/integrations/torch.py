"""PyTorch: predictive samples (N, K, C) of a network with dropout, of an ensemble, of a last layer.

    from parbals.integrations.torch import DropoutSamples

    model = DropoutSamples(network, n_samples=100)
    batch = parbals.select_batch(model.sample_proba(pool), model.sample_proba(target), 20)

Inputs are tensors, arrays or mappings of them (a tokenizer's output); the network returns logits
(n, C), or an object that has them as ``logits``. A network is left as it was: its weights, its
mode, its hooks, and the global random state.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from parbals.errors import InputError
from parbals.files import need
from parbals.posterior.estimator import LogisticModel
from parbals.randomness import derive_generator
from parbals.validate import check_positive_int

__all__ = ["DropoutSamples", "EnsembleSamples", "LastLayerLaplace"]

torch = need("torch", "Predictive samples of a PyTorch network", "parbals[torch]")


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
        self.module, self.seed, self.block = module, seed, block
        self.n_samples = check_positive_int(n_samples, "n_samples")
        self._layers = [m for m in module.modules() if isinstance(m, kinds) and m.p > 0]
        if not self._layers:
            raise InputError(
                f"{type(module).__name__} has no dropout layer that drops anything; add "
                "torch.nn.Dropout, or use EnsembleSamples or LastLayerLaplace."
            )
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
                uniforms = derive_generator(self.seed, "dropout", number, k).random(shape)
                kept = torch.from_numpy(np.float32((uniforms >= layer.p) / (1.0 - layer.p)))
                self._masks[number, k, shape] = kept
            return output * self._masks[number, k, shape].to(output)

        return drop


class EnsembleSamples:
    """Networks that were trained apart (other starts, other orders): each is one sample."""

    def __init__(self, modules: Sequence[Any], block: int = 256) -> None:
        self.modules, self.block = list(modules), block
        if not self.modules:
            raise InputError("EnsembleSamples needs networks; the list is empty.")

    def sample_proba(self, X: Any) -> np.ndarray:
        """(N, K, C) float32."""
        return np.stack([_proba(module, X, self.block) for module in self.modules], axis=1)


class LastLayerLaplace:
    """The last linear layer made Bayesian: its weights' posterior, the rest of the network fixed.

    ``fit`` finds the mode on the inputs of that layer and a Gaussian around it, by
    :class:`parbals.BayesianLogisticRegression`; with ``inference="ep"`` its strategies in closed
    form can choose: ``select_batch_from_model(laplace.model_, laplace.features(pool), ...)``.

    Args:
        module: a network with a ``torch.nn.Linear`` that gives the logits.
        layer: that layer; by default the last linear one of ``module.modules()``.
        n_samples, prior_scale, inference, random_state: as in
            :class:`parbals.BayesianLogisticRegression`.
        block: rows that go through the network at once.
    """

    def __init__(
        self,
        module: Any,
        layer: Any = None,
        n_samples: int = 400,
        prior_scale: float | str = "auto",
        inference: str = "laplace",
        random_state: int = 0,
        block: int = 256,
    ) -> None:
        linear = [m for m in module.modules() if isinstance(m, torch.nn.Linear)]
        if layer is None and not linear:
            raise InputError(
                f"{type(module).__name__} has no torch.nn.Linear; name the last layer: layer=..."
            )
        self.module, self.layer = module, linear[-1] if layer is None else layer
        self.n_classes = int(self.layer.out_features)
        self.block = block
        self._settings = (n_samples, prior_scale, inference)
        self._seed = random_state

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
        classes = np.arange(self.n_classes)
        model = LogisticModel(*self._settings, classes=classes, random_state=self._seed)
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
    logits = getattr(output, "logits", output)
    if logits.ndim != 2:
        raise InputError(
            f"{type(module).__name__} returned logits of shape {tuple(logits.shape)}; a classifier "
            "returns (rows, classes)."
        )
    return logits


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

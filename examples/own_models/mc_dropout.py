"""A PyTorch network with Monte-Carlo dropout as a model for parbals (needs torch).

Each of the K samples is the network under one fixed set of dropout masks. The masks are drawn once
per fit and kept, because the k-th sample must be the same function in every call: otherwise two
points' predictions would not vary together, and batches would be chosen on noise.
"""

from typing import Self

import numpy as np
import torch
from torch import nn


class DropoutNetwork:
    """One hidden layer; ``fit`` and ``sample_proba`` are all that parbals asks for."""

    def __init__(
        self,
        n_classes: int,
        width: int = 64,
        keep: float = 0.8,
        n_samples: int = 100,
        seed: int = 0,
    ) -> None:
        self.n_classes, self.width, self.keep = n_classes, width, keep
        self.n_samples, self.seed = n_samples, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        generator = torch.Generator().manual_seed(self.seed)
        torch.manual_seed(self.seed)
        self.first = nn.Linear(X.shape[1], self.width)
        self.second = nn.Linear(self.width, self.n_classes)
        inputs = torch.as_tensor(X, dtype=torch.float32)
        labels = torch.as_tensor(y, dtype=torch.long)
        optimiser = torch.optim.Adam(
            [*self.first.parameters(), *self.second.parameters()], lr=0.02, weight_decay=1e-3
        )
        for _ in range(200):
            logits = self.second(torch.relu(self.first(inputs)) * self._masks(len(X), generator))
            loss = nn.functional.cross_entropy(logits, labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        self.masks = self._masks(self.n_samples, generator)
        return self

    def _masks(self, n: int, generator: torch.Generator) -> torch.Tensor:
        return (torch.rand(n, self.width, generator=generator) < self.keep) / self.keep

    @torch.no_grad()
    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, K, C)."""
        hidden = torch.relu(self.first(torch.as_tensor(X, dtype=torch.float32)))
        logits = self.second(hidden[:, None, :] * self.masks)
        return torch.softmax(logits, dim=2).numpy()

"""The lower layers of a text network, frozen while the upper ones are fine-tuned.

Their outputs do not change, so a text passes them once, not once for every epoch and fold, and no
gradient passes them at all.

The network is split where transformers has `embeddings` and `encoder.layer`, as BERT, RoBERTa and
MPNet do, and where both halves in turn compute what the whole does; others are trained as a whole.
"""

import copy
from collections.abc import Sequence
from typing import Any

from parbals_label.encoders.torch_models import TextModel

__all__ = ["LowerLayers", "UpperLayers"]

_BLOCK = 32
"""Texts of similar length that pass the lower layers at once."""
_MAX_BYTES = 1 << 30
"""Outputs beyond these are computed again whenever they are needed."""
_TEXTS = ("a", "a few words, and some more")
"""Two lengths, so that the check of a split has padding."""


class LowerLayers:
    """The frozen layers of a base network, and their outputs for texts that passed them.

    Attributes:
        n_layers: how many layers they are, from the embeddings upwards.
    """

    def __init__(self, base: TextModel, n_layers: int) -> None:
        self.n_layers = n_layers
        self._base = base
        self._network = _with_layers(
            base.network, base.network.embeddings, base.network.encoder.layer[:n_layers]
        )
        self._outputs: dict[str, Any] = {}
        self._n_bytes = 0

    @property
    def share(self) -> float:
        """Their share of all layers."""
        return self.n_layers / len(self._base.network.encoder.layer)

    @classmethod
    def of(cls, base: TextModel, share: float) -> "LowerLayers | None":
        """The lowest ``share`` of a network's layers; None where it cannot be split."""
        import torch

        layers = getattr(getattr(base.network, "encoder", None), "layer", None)
        if not isinstance(layers, torch.nn.ModuleList) or not hasattr(base.network, "embeddings"):
            return None
        n_layers = int(share * len(layers))
        if not n_layers:
            return None
        lower = cls(base, n_layers)
        with torch.inference_mode():
            whole = base.rows(_TEXTS)
            try:
                split = UpperLayers(base, lower).rows(_TEXTS)
            except (AttributeError, TypeError, ValueError, RuntimeError):  # of another architecture
                return None
        return lower if torch.allclose(whole, split, rtol=1e-2, atol=1e-3) else None

    def prepare(self, texts: Sequence[str]) -> None:
        """Compute the outputs of texts, in an order that depends on these texts alone."""
        missing = sorted(set(texts).difference(self._outputs), key=lambda text: (len(text), text))
        for start in range(0, len(missing), _BLOCK):
            if self._n_bytes >= _MAX_BYTES:
                return
            block = missing[start : start + _BLOCK]
            for text, states in zip(block, self._computed(block), strict=True):
                self._outputs[text] = states
                self._n_bytes += states.nbytes

    def _computed(self, texts: Sequence[str]) -> list[Any]:
        """Outputs (T, H) of each text, without padding."""
        import torch

        with torch.no_grad():
            encoded = self._base._tokenize(list(texts)).to(self._base.device)
            mask = encoded["attention_mask"]
            output = self._network(input_ids=encoded["input_ids"], attention_mask=mask)
            states = output.last_hidden_state
        lengths = mask.sum(dim=1).tolist()
        return [rows[:n].clone() for rows, n in zip(states, lengths, strict=True)]

    def outputs(self, texts: Sequence[str]) -> tuple[Any, Any]:
        """Outputs (B, T, H) of the lower layers, and the mask (B, T) of tokens that are none."""
        import torch

        missing = [text for text in texts if text not in self._outputs]
        available = self._outputs
        if missing:
            available = available | dict(zip(missing, self._computed(missing), strict=True))
        states = [available[text] for text in texts]
        lengths = torch.tensor([len(rows) for rows in states], device=states[0].device)
        padded = torch.nn.utils.rnn.pad_sequence(states, batch_first=True)
        mask = torch.arange(padded.shape[1], device=padded.device) < lengths[:, None]
        return padded, mask.long()


class UpperLayers(TextModel):
    """The layers of a text network above frozen ones, as an encoder; both share the weights.

    Attributes:
        layers: the layers.
    """

    def __init__(self, whole: TextModel, lower: LowerLayers) -> None:
        self.__dict__.update(whole.__dict__)
        self.layers = whole.network.encoder.layer[lower.n_layers :]
        self.network = _with_layers(whole.network, _passed(), self.layers)
        self._lower = lower

    def rows(self, prepared: Sequence[str]) -> Any:
        states, mask = self._lower.outputs(prepared)
        output = self.network(inputs_embeds=states, attention_mask=mask).last_hidden_state
        rows = (output * mask.unsqueeze(-1)).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        return rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-12)


def _with_layers(network: Any, embeddings: Any, layers: Any) -> Any:
    """A network with other embeddings and layers; it shares all weights, and has no pooler."""
    encoder = copy.copy(network.encoder)
    encoder._modules = {**network.encoder._modules, "layer": layers}
    partial = copy.copy(network)
    partial._modules = {**network._modules, "embeddings": embeddings, "encoder": encoder}
    if "pooler" in partial._modules:
        partial._modules["pooler"] = None
    return partial


def _passed() -> Any:
    """Embeddings that are hidden states already."""
    import torch

    class Passed(torch.nn.Module):
        def forward(self, *_: Any, inputs_embeds: Any, **__: Any) -> Any:
            return inputs_embeds

    return Passed()

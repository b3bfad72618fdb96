"""What makes fine-tuning on a laptop quick, and what does it cost in accuracy?

    python studies adaptation.encoder.levers --pack FOLDER --data DATA  # sets and MiniLM: 30 MB
    python studies adaptation.encoder.levers --folder FOLDER --workers 14  # errors, best on a GPU
    python studies adaptation.encoder.levers --folder FOLDER --measure cost  # CPU-s of a step
    python studies adaptation.encoder.levers --folder FOLDER --measure adapted  # time it in all
    python studies adaptation.encoder.levers --tables  # write LEVERS.md from the records

A recipe says which layers of MiniLM are frozen, for how many epochs and at which rate the others
are trained, and whether by all their weights or by low-rank updates. A run draws 1,000 texts as the
pool and labels 100 (or 250) of them at random; its error is that of the closed-form model on the
rows of the fine-tuned encoder, on 1,500 other texts. Recipes share texts and labels of a seed, so
differences are paired. CPU-seconds are those of one thread.

FOLDER must hold what `studies error_estimates.promises.texts` needs before packing.
"""

import csv
import json
import lzma
import os
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.records import Record, Todo, study

FOLDER = Path(__file__).parent
SETS = (
    *("news-4", "news-2", "sms-2", "films-2", "tweets-3"),
    *("places-4", "shop-5", "editorials-3", "fortunes-6"),
)
N_SEEDS = 5
N_POOL = 1_000
N_TEST = 1_500
N_LABELS = 100
MORE_LABELS = 250
LOGIT_SCALE = 8.0
HEAD_RATE = 2e-3
BATCH = 16
ROW_LENGTH = 3.0
TIMED = ("news-4", "sms-2", "questions")
"""Sets whose steps are timed; questions are the short texts of all sets that end in ?."""


@dataclass(frozen=True)
class Recipe:
    """A way to fine-tune.

    Attributes:
        frozen: lower layers that are not trained; their outputs are computed once.
        epochs: of 100 labels; of more labels as many as show no more items than 125 would.
        rate: learning rate of the network.
        dropout: whether the trained layers drop units.
        rank: of low-rank updates of the linear layers; 0 trains all weights.
        half: matrix products in bfloat16.
    """

    frozen: int = 0
    epochs: int = 20
    rate: float = 5e-5
    dropout: bool = True
    rank: int = 0
    half: bool = False


RECIPES = {
    "all layers, 20 epochs": Recipe(),
    "upper 3, 10 epochs, 1e-4": Recipe(3, 10, 1e-4),
    "upper 3, 10 epochs, 2e-4": Recipe(3, 10, 2e-4),
    "upper 2, 10 epochs, 2e-4": Recipe(4, 10, 2e-4),
    "upper 3, 10 epochs, 2e-4, no dropout": Recipe(3, 10, 2e-4, dropout=False),
    "all layers, 10 epochs, 1e-4": Recipe(0, 10, 1e-4),
    "upper 3, 20 epochs, 1e-4": Recipe(3, 20, 1e-4),
    "upper 3, 6 epochs, 2e-4": Recipe(3, 6, 2e-4),
    "upper 4, 8 epochs, 2e-4": Recipe(2, 8, 2e-4),
    "upper 2, 15 epochs, 2e-4": Recipe(4, 15, 2e-4),
    "low rank 8, 10 epochs, 1e-3": Recipe(0, 10, 1e-3, rank=8),
    "upper 3, 10 epochs, 2e-4, bfloat16": Recipe(3, 10, 2e-4, half=True),
    "upper 3, 20 epochs, 5e-5": Recipe(3, 20, 5e-5),
    "upper 3, 10 epochs, 4e-4": Recipe(3, 10, 4e-4),
    "low rank 8, 10 epochs, 1e-3, no dropout": Recipe(0, 10, 1e-3, dropout=False, rank=8),
    "low rank 8, 8 epochs, 1e-3, no dropout": Recipe(0, 8, 1e-3, dropout=False, rank=8),
    "low rank 8, 6 epochs, 1e-3, no dropout": Recipe(0, 6, 1e-3, dropout=False, rank=8),
}
BEFORE = "all layers, 20 epochs"
CHOSEN = "low rank 8, 10 epochs, 1e-3, no dropout"
WITH_MORE_LABELS = (BEFORE, "upper 3, 10 epochs, 2e-4", "upper 3, 10 epochs, 1e-4")


def main() -> int:
    if "--pack" in sys.argv:
        at = sys.argv.index
        pack(Path(sys.argv[at("--pack") + 1]), Path(sys.argv[at("--data") + 1]))
        return 0
    files = FOLDER / "levers.jsonl", FOLDER / "LEVERS.md"
    options = {"folder": "", "sets": ",".join(SETS), "recipes": ";".join(RECIPES)}
    options["measure"] = "error"
    return study(__doc__ or "", *files, runs, page, seeds=N_SEEDS, options=options)


def runs(options: Namespace) -> Iterator[Todo]:
    folder = Path(options.folder).resolve()
    if not (folder / "texts.json.xz").is_file():
        raise ValueError("--folder names what --pack has written")
    recipes = options.recipes.split(";")
    if options.measure == "cost":
        for name, recipe in product(TIMED, recipes):
            yield ("cost", name, recipe), partial(cost, folder, name, RECIPES[recipe])
        return
    if options.measure == "adapted":
        for name in TIMED:
            yield ("adapted", name), partial(adapted, folder, name)
        return
    for seed, name in product(range(options.seeds), options.sets.split(",")):
        budgets = [(recipe, N_LABELS) for recipe in recipes]
        budgets += [(recipe, MORE_LABELS) for recipe in recipes if recipe in WITH_MORE_LABELS]
        for recipe, n_labels in budgets:
            todo = partial(errors, folder, name, recipe, n_labels, seed)
            yield ("error", name, recipe, n_labels, seed), todo


def errors(folder: Path, name: str, recipe: str, n_labels: int, seed: int) -> Record:
    """Error and log loss on test texts after fine-tuning by a recipe, and on frozen rows."""
    from parbals import ActiveLearner

    texts, labels = load_texts(folder, name)
    order = np.random.default_rng(seed).permutation(len(texts))[: N_POOL + N_TEST]
    chosen = [texts[i] for i in order]
    y = labels[order]
    n_classes = int(labels.max()) + 1
    start = time.perf_counter()
    encoder = tuned(folder, RECIPES[recipe], chosen[:n_labels], y[:n_labels], seed)
    seconds = time.perf_counter() - start
    rows = encoded(encoder, chosen)
    learner = ActiveLearner(
        rows[:N_POOL], list(range(n_classes)), random_state=seed, prior_scale="even"
    )
    learner.tell(np.arange(n_labels), y[:n_labels].tolist())
    probs = learner.predict_proba(rows[N_POOL:])
    truth = y[N_POOL:]
    true_probs = np.maximum(probs[np.arange(len(truth)), truth], 1e-12)
    return {
        "error": round(float((probs.argmax(axis=1) != truth).mean()), 6),
        "log_loss": round(float(-np.log(true_probs).mean()), 6),
        "seconds": round(seconds, 2),
    }


def encoded(encoder: Any, texts: list[str]) -> np.ndarray:
    """Centred rows (N, D) of texts."""
    order = np.argsort([len(text) for text in texts], kind="stable")
    blocks = [order[start : start + 250] for start in range(0, len(order), 250)]
    parts = [encoder.encode([texts[i] for i in block]) for block in blocks]
    rows = np.empty((len(texts), parts[0].shape[1]), np.float32)
    for block, part in zip(blocks, parts, strict=True):
        rows[block] = part
    return ROW_LENGTH * (rows - rows.mean(axis=0))


def tuned(folder: Path, recipe: Recipe, texts: list[str], labels: np.ndarray, seed: int) -> Any:
    """MiniLM, fine-tuned on texts and their classes by a recipe."""
    import torch

    torch.manual_seed(seed)
    with torch.enable_grad():
        training = Training(folder, recipe, texts, labels, seed)
        for batch in training.batches:
            training.step(batch)
    training.whole.network.eval()
    return training.whole


class Training:
    """One fine-tuning by a recipe: batches, and the step on one of them."""

    def __init__(
        self, folder: Path, recipe: Recipe, texts: list[str], labels: np.ndarray, seed: int
    ) -> None:
        import torch
        from adaptation.encoder.lower_layers import LowerLayers, UpperLayers
        from parbals_label.encoders.low_rank import LowRankUpdates

        self.recipe = recipe
        self.texts = texts
        self.whole = base(folder)
        network = self.whole.network
        network.requires_grad_(False)
        layers = network.encoder.layer
        self.encoder = self.whole
        if recipe.frozen:
            lower = LowerLayers.of(base(folder), (recipe.frozen + 0.5) / len(layers))
            assert lower is not None
            lower.prepare(texts)
            self.encoder = UpperLayers(self.whole, lower)
        trained = network if not recipe.frozen else layers[recipe.frozen :]
        self.updates = LowRankUpdates(network, recipe.rank) if recipe.rank else None
        if self.updates is None:
            trained.requires_grad_(True)
            network.get_input_embeddings().requires_grad_(False)
            self.weights = [weight for weight in trained.parameters() if weight.requires_grad]
        else:
            self.weights = self.updates.factors
        network.train(recipe.dropout)
        device = self.whole.device
        self.labels = torch.as_tensor(labels, device=device)
        self.head = torch.nn.Linear(384, int(labels.max()) + 1, device=device)
        torch.nn.init.zeros_(self.head.weight)
        groups = [
            {"params": self.weights, "lr": recipe.rate},
            {"params": self.head.parameters(), "lr": HEAD_RATE},
        ]
        self.optimiser = torch.optim.AdamW(groups, fused=True)
        self.batches = self._batches(seed)
        n_steps = len(self.batches)
        warm_up = max(1, round(0.1 * n_steps))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimiser,
            lambda step: min((step + 1) / warm_up, (n_steps - step) / max(1, n_steps - warm_up)),
        )

    def _batches(self, seed: int) -> list[np.ndarray]:
        n_items = len(self.texts)
        epochs = min(self.recipe.epochs, max(5, 125 * self.recipe.epochs // n_items))
        generator = np.random.default_rng(seed)
        orders = [generator.permutation(n_items) for _ in range(epochs)]
        return [order[i : i + BATCH] for order in orders for i in range(0, n_items, BATCH)]

    def step(self, batch: np.ndarray) -> None:
        """One step of the optimiser, on a CPU in four parts of similar length."""
        import torch

        device = self.whole.device.type
        n_parts = 4 if device == "cpu" else 1
        by_length = batch[np.argsort([len(self.texts[i]) for i in batch], kind="stable")]
        self.optimiser.zero_grad()
        for part in np.array_split(by_length, n_parts):
            with torch.autocast(device, torch.bfloat16, enabled=self.recipe.half):
                rows = self.encoder.rows([self.texts[i] for i in part])
            logits = self.head(LOGIT_SCALE * torch.nn.functional.normalize(rows.float()))
            losses = torch.nn.functional.cross_entropy(logits, self.labels[part], reduction="none")
            (losses.sum() / len(batch)).backward()
        self.optimiser.step()
        self.schedule.step()
        if self.updates is not None:
            self.updates.apply()


def cost(folder: Path, name: str, recipe: Recipe) -> Record:
    """CPU-seconds of one thread for a step, the mean of three after the first one."""
    import torch

    torch.set_num_threads(1)
    texts = timed_texts(folder, name)[:N_LABELS]
    labels = np.arange(len(texts)) % 4
    with torch.enable_grad():
        training = Training(folder, recipe, texts, labels, 0)
        training.step(training.batches[0])
        start = time.process_time()
        for batch in training.batches[1:4]:
            training.step(batch)
    return {"step": round((time.process_time() - start) / 3, 4)}


def timed_texts(folder: Path, name: str) -> list[str]:
    if name != "questions":
        return load_texts(folder, name)[0][:N_LABELS]
    texts = {text for each in SETS for text in load_texts(folder, each)[0]}
    distinct = {" ".join(text.split()) for text in texts}
    questions = sorted(text for text in distinct if text.endswith("?") and len(text) < 120)
    return [questions[i] for i in np.random.default_rng(0).permutation(len(questions))][:N_POOL]


def base(folder: Path) -> Any:
    from parbals_label.encoders.adapt import load_base
    from parbals_label.encoders.base import Options

    encoder = load_base(folder / "minilm", Options(), "text")
    encoder.network.float()
    return encoder


@cache
def load_texts(folder: Path, name: str) -> tuple[list[str], np.ndarray]:
    """Texts in random order, and their class numbers (N,)."""
    with lzma.open(folder / "texts.json.xz", "rt", encoding="utf-8") as stream:
        content = json.load(stream)["news-4" if name == "news-2" else name]
    labels = np.array(content["labels"])
    return content["texts"], (labels == 0).astype(int) if name == "news-2" else labels


def pack(folder: Path, data: Path) -> None:
    """Write 2,500 texts of each set, and MiniLM with the word embeddings that they need."""
    from error_estimates.promises.texts import collect, save_encoder

    sets = collect(folder, data)
    drawn = {
        name: {key: values[: N_POOL + N_TEST] for key, values in sets[name].items()}
        for name in SETS
        if name in sets
    }
    with lzma.open(folder / "texts.json.xz", "wt", encoding="utf-8") as stream:
        json.dump(drawn, stream)
    save_encoder(folder, [text for content in drawn.values() for text in content["texts"]])


def adapted(folder: Path, name: str) -> Record:
    """Time `parbals adapt` on a project of 1,000 texts with 100 labels, from start to stored rows.

    The errors are real ones, of the texts without a label, by the project's predictions.
    """
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    from parbals_label.encoders.base import Options
    from parbals_label.project.adapting import adapt_project
    from parbals_label.project.create import Roles, create_project
    from parbals_label.store.records import Submission
    from parbals_label.store.store import Store

    texts, labels = _distinct_texts(folder, name)
    classes = [f"class {number}" for number in range(int(labels.max()) + 1)]
    options = Options(device="cpu")
    record: Record = {"cores": len(os.sched_getaffinity(0))}
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["PARBALS_CACHE_DIR"] = str(Path(temporary) / "cache")
        data = Path(temporary) / "texts.csv"
        with data.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["text"], *([text] for text in texts)])
        project = Path(temporary) / "project"
        create_project(
            *(project, data, Roles(text=("text",)), classes, {"seed": 0}),
            encoder=f"hf:{folder / 'minilm'}",
            encode_with=options,
        )
        with Store.open(project) as store:
            answers = [Submission(i, classes[labels[i]]) for i in range(N_LABELS)]
            store.submit(answers, annotator="publisher")
            record["frozen"] = _real_error(store, labels)
            start = time.perf_counter(), time.process_time()
            result = adapt_project(
                store,
                options=options,
                force=True,
                announce=lambda seconds: record.update(announced=round(seconds, 1)),
            )
            record["wall"] = round(time.perf_counter() - start[0], 1)
            record["cpu"] = round(time.process_time() - start[1], 1)
            record["adapted"] = _real_error(store, labels)
            record["better"] = result.log_loss < result.frozen_log_loss
    return record


def _distinct_texts(folder: Path, name: str) -> tuple[list[str], np.ndarray]:
    """1,000 texts on one line each, no two alike, and their classes; of questions: who or what."""
    if name == "questions":
        texts = timed_texts(folder, name)
        labels = np.array(
            [text.lower().startswith(("what", "who", "how", "why")) for text in texts]
        )
        return texts, labels.astype(int)
    texts, labels = load_texts(folder, name)
    first = {" ".join(text.split()): label for text, label in zip(texts, labels, strict=True)}
    return list(first)[:N_POOL], np.array(list(first.values()))[:N_POOL]


def _real_error(store: Any, labels: np.ndarray) -> float:
    """The error on texts without a label."""
    from parbals_label.project.engine import learner_of

    learner = learner_of(store)
    unlabelled = np.arange(N_LABELS, len(labels))
    probs = learner.setup.predictions(learner.fitted(), unlabelled)
    return round(float((probs.argmax(axis=1) != labels[unlabelled]).mean()), 4)


def page(records: list[Record]) -> Iterator[str]:
    yield "# What makes fine-tuning on a laptop quick, and what does it cost in accuracy?"
    yield ""
    yield "Written by `python studies adaptation.encoder.levers`; do not edit."
    yield from _answer(records)
    yield ""
    yield (
        f"Error in points, less that of *{BEFORE}* on the same texts and labels, in the mean over "
        f"runs ± standard error; then by set. Sets: {', '.join(SETS)}, random labels, {N_POOL:,} "
        "texts in the pool. *CPU-s*: of one thread for a step on texts of AG News. "
        f"*{CHOSEN}* is what `parbals adapt` does."
    )
    for n_labels in (N_LABELS, MORE_LABELS):
        yield from ("", f"## {n_labels} labels", "")
        yield from _error_table(records, n_labels)
    yield from _adapted_table(records)


def _answer(records: list[Record]) -> Iterator[str]:
    """The chosen recipe against the former one, and against the other quick ones."""
    gaps = _gaps(records, CHOSEN, N_LABELS)
    if gaps:
        errors = 100.0 * np.array([gap[0] for gap in gaps.values()])
        yield ""
        yield (
            "**Low-rank updates without dropout, for half as many steps: "
            f"{shown(errors)} points of error with {N_LABELS} labels.** Dropout costs time and "
            "gains nothing; fewer epochs cost accuracy on some sets. Frozen lower layers save more "
            "and cost about three times as much; bfloat16 makes no difference there. Runs with "
            "dropout took naive products with A and B; `parbals adapt` computes W + B A once a "
            "step, which is the same."
        )


def shown(errors: np.ndarray) -> str:
    """The mean of differences with its standard error."""
    return f"{errors.mean():+.2f} ± {errors.std(ddof=1) / len(errors) ** 0.5:.2f}"


def _gaps(
    records: list[Record], recipe: str, n_labels: int
) -> dict[tuple[str, int], tuple[float, float]]:
    """Error and log loss less those of the former recipe, by set and seed."""
    values = {
        tuple(record["run"][1:]): (record["error"], record["log_loss"])
        for record in records
        if record["run"][0] == "error"
    }
    gaps = {}
    for (name, of, n, seed), (error, log_loss) in values.items():
        before = values.get((name, BEFORE, n, seed))
        if before is not None and (of, n) == (recipe, n_labels):
            gaps[name, seed] = (error - before[0], log_loss - before[1])
    return gaps


def _error_table(records: list[Record], n_labels: int) -> Iterator[str]:
    costs = {
        record["run"][2]: record["step"]
        for record in records
        if record["run"][:2] == ["cost", TIMED[0]]
    }
    yield f"| recipe | CPU-s a step | runs | error | log loss | {' | '.join(SETS)} |"
    yield "| --- |" + " ---: |" * (4 + len(SETS))
    for recipe in RECIPES:
        pairs = _gaps(records, recipe, n_labels)
        if not pairs:
            continue
        gaps = 100.0 * np.array([gap[0] for gap in pairs.values()])
        losses = np.mean([gap[1] for gap in pairs.values()])
        of_sets = [
            np.mean([100.0 * gap[0] for key, gap in pairs.items() if key[0] == name] or [np.nan])
            for name in SETS
        ]
        step = f"{costs[recipe]:.2f}" if recipe in costs else "–"
        cells = " | ".join(f"{value:+.1f}" for value in of_sets)
        title = f"**{recipe}**" if recipe == CHOSEN else recipe
        yield f"| {title} | {step} | {len(gaps)} | {shown(gaps)} | {losses:+.3f} | {cells} |"


def _adapted_table(records: list[Record]) -> Iterator[str]:
    """How long `parbals adapt` takes in all."""
    timed = [record for record in records if record["run"][0] == "adapted"]
    if not timed:
        return
    yield from ("", "## `parbals adapt` from start to end", "")
    yield (
        f"A project of {N_POOL:,} texts (of questions: all that the sets have), {N_LABELS} random "
        "labels, folds, final encoder and all rows included. Errors in % are real ones of texts "
        "without a label."
    )
    yield from (
        "",
        "| texts | cores | announced, s | wall, s | CPU-s | error, frozen | fine-tuned |",
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for record in timed:
        yield (
            f"| {record['run'][1]} | {record['cores']} | {record.get('announced', 0.0):.0f} | "
            f"{record['wall']:.0f} | {record['cpu']:.0f} | {100 * record['frozen']:.1f} | "
            f"{100 * record['adapted']:.1f} |"
        )

"""Open model and encoder files that somebody made up; a process of test_model_files.py.

Every file is either refused by an InputError or predicts finite probabilities. A file that asks for
more memory or time than the limits allow ends this program.
"""

import json
import resource
import sys
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from parbals.errors import InputError
from parbals.features.table import TableEncoding
from parbals.features.text import TextMix
from parbals_label.encoders import trees
from parbals_label.encoders.trees import FILE, TableTrees
from parbals_label.project.embedding import load_trees
from parbals_label.project.model_files import ExportedModel, load_model

MEMORY = 3 << 30
"""Bytes of address space: the files unpack to 256 MiB at most, the libraries need about 1 GiB."""
CPU_SECONDS = 120
N_EXAMPLES = int(sys.argv[1])
"""Made-up files of each kind; with 0 there are large ones instead."""
N_COPIES = 100
"""Of three items: 300 rows × 300,000 draws × 3 classes are 2 GiB, twice, if nothing is blocked."""
FOLDER = Path(tempfile.mkdtemp())
RNG = np.random.default_rng(0)
TEXTS = ["win a free prize", "see you at lunch", "free entry, call now", "are you free"] * 5
CELLS = {"x": RNG.normal(size=40), "kind": RNG.choice(["a", "b", "c"], 40)}
CLASSES = {2: ("no", "yes"), 3: ("a", "b", "c")}
trees._N_TREES = 5


def gaussian(width, n_latents=1):
    roots = RNG.normal(size=(n_latents, width + 1, width + 1))
    return {"mean": RNG.normal(size=(width + 1, n_latents)), "roots": roots}


def words_model():
    mix = TextMix().fit(TEXTS)
    return ExportedModel(CLASSES[2], "words", ("text",), mix.as_arrays() | gaussian(mix.width))


def trees_encoder():
    table = TableEncoding.fit(CELLS)
    labels = (CELLS["x"] > 0).astype(int)
    return TableTrees.grow(table, table.transform(CELLS), labels, seed=0)


def trees_model():
    encoder = trees_encoder()
    width = encoder.table.width + 2
    arrays = encoder.as_arrays() | gaussian(width)
    return ExportedModel(CLASSES[2], "encoder-0123456789ab", ("x", "kind"), arrays)


def draws_model():
    arrays = {"draws": RNG.normal(size=(6, 3, 5)), "weights": np.full(6, 1 / 6)}
    return ExportedModel(CLASSES[3], "given", (), arrays)


def gaussian_model():
    return ExportedModel(CLASSES[3], "given", (), gaussian(4, n_latents=3))


MODELS = {
    "words": (words_model(), TEXTS[:3]),
    "trees": (trees_model(), {name: cells[:3] for name, cells in CELLS.items()}),
    "draws": (draws_model(), np.ones((3, 4))),
    "gaussian": (gaussian_model(), np.ones((3, 4))),
}


def draws(n_draws):
    """Arrays of a file of some hundred kilobytes."""
    return {"draws": np.zeros((n_draws, 3, 5)), "weights": np.full(n_draws, 1 / n_draws)}


def chain(n_nodes):
    """Two leaves, and a tree whose left children are leaves: as deep as half of its nodes."""
    own_index = np.arange(n_nodes)
    children = np.c_[own_index, own_index]
    inner = own_index[2:-2:2]
    children[inner] = np.c_[inner + 1, inner + 2]
    return forest(children, first=own_index[:3])


def stumps(n_trees):
    own_index = np.arange(n_trees)
    return forest(np.c_[own_index, own_index], first=own_index)


def forest(children, first):
    """Arrays of a file in which every row goes to the second child."""
    n_nodes = len(children)
    return {
        "down": children,
        "first": first,
        "column": np.zeros(n_nodes, int),
        "threshold": np.full(n_nodes, -1e30),
        "values": np.zeros((n_nodes, 2), np.float32),
    }


def large_files():
    """Description → model, and the arrays that are changed in it."""
    return {
        "three million trees": ("trees", stumps(3_000_000)),
        "a chain of two million nodes": ("trees", chain(2_000_001)),
        "many draws": ("draws", draws(300_000)),
        "too many draws": ("draws", draws(2_000_000)),
        "a root of a million columns": ("gaussian", {"roots": np.zeros((3, 5, 1_000_000))}),
        "a million classes for three": ("gaussian", {"mean": np.zeros((5, 1_000_000))}),
        "five million words": ("words", {"vocabulary": np.arange(5_000_000).astype("U")}),
        "a table of many bins": (
            "trees",
            {
                "table": np.array(
                    json.dumps(
                        {
                            "columns": [
                                {
                                    "source": "x",
                                    "reading": "number",
                                    "part": "",
                                    "mean": 0.0,
                                    "deviation": 1.0,
                                    "edges": [0.0] * 2_000_000,
                                    "has_gaps": False,
                                }
                            ],
                            "notes": [],
                        }
                    )
                )
            },
        ),
        "a nested table": ("trees", {"table": np.array("[" * 100_000)}),
    }


def open_changed_model(name, changed, n_copies=1):
    """Write the changed model and predict copies of three items, or see it refused."""
    model, items = MODELS[name]
    if isinstance(items, dict):
        items = {key: np.tile(cells, n_copies) for key, cells in items.items()}
    else:
        items = np.concatenate([items] * n_copies).tolist()
    arrays = {key: value for key, value in (model.arrays | changed).items() if value is not None}
    path = FOLDER / "model.npz"
    ExportedModel(model.classes, model.encoder, model.columns, arrays).save(path)
    try:
        probs = load_model(path).predict_proba(items)
    except InputError as error:
        return str(error)
    assert probs.shape == (3 * n_copies, len(model.classes)), probs.shape
    assert np.isfinite(probs).all()
    return None


CHANGES = {
    "missing": lambda array, n: None,
    "not a number": lambda array, n: array * np.nan,
    "empty": lambda array, n: array[:0],
    "a number": lambda array, n: np.array(7),
    "text": lambda array, n: np.array("x" * n),
    "one axis less": lambda array, n: array.reshape(-1),
    "one axis more": lambda array, n: array[None],
    "shorter": lambda array, n: array[: len(array) // 2],
    "rolled": lambda array, n: np.roll(array, n),
    "repeated": lambda array, n: np.repeat(array, n, axis=0),
    "wider": lambda array, n: np.repeat(array, n, axis=-1),
    "zeros": lambda array, n: np.zeros((n,) * array.ndim)[: 10**6],
    "huge": lambda array, n: array * 1e300,
    "negative": lambda array, n: -array - 1,
    "integers": lambda array, n: array.astype(int),
    "complex": lambda array, n: array + 1j,
}


def changed_array(array, change, n):
    try:
        with np.errstate(all="ignore"):
            return CHANGES[change](np.asarray(array), n)
    except (TypeError, ValueError, IndexError):  # this change does not suit this array
        return array


@st.composite
def changed_models(draw):
    name = draw(st.sampled_from(sorted(MODELS)))
    arrays = MODELS[name][0].arrays
    keys = draw(st.lists(st.sampled_from(sorted(arrays)), min_size=1, max_size=3, unique=True))
    changed = {}
    for key in keys:
        change = draw(st.sampled_from(sorted(CHANGES)))
        changed[key] = changed_array(arrays[key], change, draw(st.sampled_from([1, 2, 3, 97])))
    return name, changed


@seed(0)
@settings(
    max_examples=N_EXAMPLES or 1,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(changed_models())
def changed_models_are_refused_or_predict(changed_model):
    name, changed = changed_model
    with np.errstate(all="ignore"):
        open_changed_model(name, changed)


@seed(0)
@settings(max_examples=N_EXAMPLES or 1, deadline=None, database=None)
@given(st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def changed_bytes_are_refused_or_read(position, value, is_cut):
    """Bytes of an encoder's file: the checksum of each array notices a change."""
    path = FOLDER / FILE
    content = bytearray(ENCODER_BYTES)
    content[position % len(content)] = value
    path.write_bytes(content[: position % len(content)] if is_cut else content)
    try:
        rows = load_trees(path).encode([{"x": 0.5, "kind": "a"}])
    except InputError:
        return
    assert np.isfinite(rows).all()


if __name__ == "__main__":
    large = {} if N_EXAMPLES else large_files()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    for name in MODELS:
        assert open_changed_model(name, {}) is None, "the unchanged model predicts"
    if N_EXAMPLES:
        trees_encoder().save(FOLDER / FILE)
        ENCODER_BYTES = (FOLDER / FILE).read_bytes()
        changed_models_are_refused_or_predict()
        changed_bytes_are_refused_or_read()
    else:
        for description, (name, changed) in large.items():
            outcome = open_changed_model(name, changed, N_COPIES) or "predicts"
            sys.stdout.write(f"{description}: {outcome}\n")
    sys.stdout.write("done\n")

"""Read files that somebody made up, of every format; a process of test_hostile_files.py.

Every file is either read to its end or refused by an InputError, as data, as a target set, as
filled-in labels and as an image. A file that asks for more memory or time than the limits allow
ends this program.
"""

import gzip
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from parbals.errors import InputError, ParbalsError
from parbals_label.answer_form import AnswerForm
from parbals_label.encoders import embed, load_encoder
from parbals_label.project.create import create_project
from parbals_label.project.sniff import Roles
from parbals_label.project.target import add_target, target_features
from parbals_label.readers.answers import read_answers
from parbals_label.readers.items import plan_items
from parbals_label.readers.open import open_source
from parbals_label.store.store import Store
from PIL import Image

MEMORY = 3 << 30
"""Bytes of address space; the libraries need about 1 GiB."""
CPU_SECONDS = 30
"""For one file."""
N_EXAMPLES = int(sys.argv[1])
FOLDER = Path(tempfile.mkdtemp())
os.environ["PARBALS_CACHE_DIR"] = str(FOLDER / "cache")
FORM = AnswerForm(classes=("ham", "spam"))
COLUMNS = ("id", "text", "label", "n")
TEXTS = ["win a free prize", "see you at lunch", "free entry", "are you free"]
ROWS = [
    {"id": f"m{n}", "text": TEXTS[n % 4], "label": ("ham", "spam")[n % 2], "n": n}
    for n in range(20)
]
CELLS = [
    *(
        "",
        "x",
        "ham",
        "0",
        "1e999",
        "-0",
        "nan",
        "=1+1",
        "\t",
        "\u202e",
        '"',
        ",",
        "\r\n",
        "é",
        "m1",
    ),
    *(0, -1, 2**63 - 1, 2**64, 1e308, float("nan"), True, None, [], [1], {"a": {"b": []}}),
]


def write_csv(path, rows, separator=","):
    """A table of text, quoted by hand so that any cell can be written."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([row.get(name) for name in names] for row in rows)]
    quoted = [
        separator.join('"' + str(cell).replace('"', '""') + '"' for cell in line) for line in lines
    ]
    path.write_text("\n".join(quoted), "utf-8", "surrogatepass")


def write_xlsx(path, rows):
    book = openpyxl.Workbook()
    names = list(rows[0])
    book.active.append(names)
    for row in rows:
        cells = [row.get(name) for name in names]
        book.active.append([c if isinstance(c, int | float | None) else ascii(c) for c in cells])
    book.save(path)


def write_parquet(path, rows):
    names = list(rows[0])
    columns = {name: [json.dumps(row.get(name)) for row in rows] for name in names}
    pq.write_table(pa.table(columns), path)


def write_npz(path, rows):
    texts = [str(row.get("text")) for row in rows]
    np.savez_compressed(path, id=np.arange(len(rows)), text=texts, X=np.ones((len(rows), 2)))


WRITERS = {
    "csv": write_csv,
    "tsv": lambda path, rows: write_csv(path, rows, "\t"),
    "txt": lambda path, rows: write_csv(path, rows, "\t"),
    "jsonl": lambda path, rows: path.write_text("".join(json.dumps(row) + "\n" for row in rows)),
    "json": lambda path, rows: path.write_text(json.dumps(rows)),
    "csv.gz": lambda path, rows: (
        write_csv(path, rows),
        path.write_bytes(gzip.compress(path.read_bytes())),
    ),
    "npy": lambda path, rows: np.save(path, np.ones((len(rows), 3))),
    "npz": write_npz,
    "xlsx": write_xlsx,
    "parquet": write_parquet,
    "png": lambda path, rows: Image.fromarray(np.zeros((len(rows), 20), np.uint8)).save(path),
}


def use(path):
    """Read a file in all ways; every refusal is an error of ours. The refusals."""
    limit_time()
    refusals = []
    for read in (read_data, read_labels, read_target) if path.suffix != ".png" else (read_image,):
        try:
            read(path)
        except ParbalsError as error:
            refusals.append(str(error))
    assert all("\n" not in refusal for refusal in refusals), refusals
    return refusals


def read_data(path):
    for _ in plan_items(open_source(path)):
        pass


def read_labels(path):
    read_answers(path, FORM)


def read_target(path):
    with Store.open(FOLDER / "project") as store:
        before = store.settings
        try:
            add_target(store, path)
        except InputError:
            assert store.settings == before
            raise
        assert np.isfinite(target_features(store)).all()


def read_image(path):
    rows = embed(load_encoder("shapes"), "shapes", lambda: iter([("a", path)]), 1).rows
    assert np.isfinite(rows).all()


def limit_time():
    """A limit for the next file: used time counts."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + CPU_SECONDS
    _, highest = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, highest))


LIMITED = settings(
    max_examples=N_EXAMPLES or 1,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@seed(0)
@LIMITED
@given(
    kind=st.sampled_from(sorted(WRITERS)),
    start=st.integers(0, 10**6),
    patch=st.binary(min_size=1, max_size=40),
    copies=st.sampled_from([1, 1, 1, 100, 10_000]),
    cut=st.booleans(),
)
def changed_bytes_are_refused_or_read(kind, start, patch, copies, cut):
    path = FOLDER / f"whole.{kind}"
    content = bytearray((FOLDER / "whole" / path.name).read_bytes())
    offset = start % len(content)
    content[offset : offset + len(patch)] = patch * copies
    path.write_bytes(content[:offset] if cut else content)
    use(path)


@seed(0)
@LIMITED
@given(
    kind=st.sampled_from(sorted(WRITERS)),
    names=st.lists(st.sampled_from([*COLUMNS, "", " ", "é", "x" * 5_000]), min_size=1, unique=True),
    cells=st.lists(st.sampled_from(CELLS), min_size=1, max_size=6),
    n_rows=st.sampled_from([1, 2, 40, 3_000]),
    factor=st.sampled_from([1, 1, 1_000]),
)
def made_up_tables_are_refused_or_read(kind, names, cells, n_rows, factor):
    cells = [cell * factor if isinstance(cell, str | list) else cell for cell in cells]
    rows = [
        {name: cells[(n + k) % len(cells)] for k, name in enumerate(names)} for n in range(n_rows)
    ]
    path = FOLDER / f"table.{kind}"
    try:
        WRITERS[kind](path, rows)
    except (ValueError, OverflowError, MemoryError):  # the format has no such names or cells
        return
    use(path)


def write_bombs():
    """Write small files that are large inside."""
    n_rows = 10_000
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * n_rows), pa.array(["x" * (1 << 20)]))
    pq.write_table(pa.table({"text": repeated}), FOLDER / "dictionary.parquet")
    texts = repeated.slice(0, 400).dictionary_decode()
    pq.write_table(pa.table({"text": texts}), FOLDER / "text.parquet", compression="zstd")
    (FOLDER / "lines.csv.gz").write_bytes(
        gzip.compress(b"a\n" + (b"x" * 9_999 + b"\n") * (1 << 15), 1)
    )
    names = ",".join(f"c{n}" for n in range(300_000))
    (FOLDER / "columns.csv").write_text(f"{names}\n{names}\n")
    (FOLDER / "keys.jsonl").write_text(json.dumps(dict.fromkeys(names.split(","), 1)) + "\n")
    (FOLDER / "nested.jsonl").write_text('{"a": ' + "[" * 1_000_000 + "\n")
    (FOLDER / "line.csv").write_bytes(b"a\n" + b"x" * (1 << 27))
    with zipfile.ZipFile(
        FOLDER / "sheet.xlsx", "w", zipfile.ZIP_DEFLATED, compresslevel=1
    ) as archive:
        write_xlsx(FOLDER / "plain.xlsx", ROWS)
        with zipfile.ZipFile(FOLDER / "plain.xlsx") as plain:
            for name in plain.namelist():
                archive.writestr(name, plain.read(name))
        with archive.open("xl/sharedStrings2.xml", "w", force_zip64=True) as part:
            for _ in range(400):
                part.write(bytes(1 << 20))
    Image.new("1", (20_000, 20_000)).save(FOLDER / "large.png")
    (FOLDER / "plain.xlsx").unlink()


if __name__ == "__main__":
    (FOLDER / "whole").mkdir()
    for kind, write in WRITERS.items():
        write(FOLDER / "whole" / f"whole.{kind}", ROWS)
    shutil.copy(FOLDER / "whole" / "whole.csv", FOLDER / "data.csv")
    roles = Roles(text=("text",), label="label", id="id")
    create_project(
        FOLDER / "project", FOLDER / "data.csv", roles, ["ham", "spam"], {}, encoder="words"
    )
    (FOLDER / "data.csv").unlink()
    if N_EXAMPLES == 0:
        # Another process, or the limit would be on what writing them needs.
        writing = multiprocessing.get_context("fork").Process(target=write_bombs)
        writing.start()
        writing.join()
    bombs = sorted(path for path in FOLDER.iterdir() if path.is_file())
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for kind in WRITERS:
        read = read_image if kind == "png" else read_data
        read(FOLDER / "whole" / f"whole.{kind}")
    if N_EXAMPLES:
        changed_bytes_are_refused_or_read()
        made_up_tables_are_refused_or_read()
    for path in bombs if N_EXAMPLES == 0 else []:
        sys.stdout.write(f"{path.name}: {use(path)[0]}\n")
    sys.stdout.write("done\n")

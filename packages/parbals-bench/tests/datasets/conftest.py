"""Tiny files in each publisher's own format; ``other=True`` changes only rows outside the pool."""

import csv
import gzip

import numpy as np
import pytest

AIRLINE = [
    "",
    "id",
    "Gender",
    "Customer Type",
    "Age",
    "Type of Travel",
    "Class",
    "Flight Distance",
    "Inflight wifi service",
    "Departure/Arrival time convenient",
    "Ease of Online booking",
    "Gate location",
    "Food and drink",
    "Online boarding",
    "Seat comfort",
    "Inflight entertainment",
    "On-board service",
    "Leg room service",
    "Baggage handling",
    "Checkin service",
    "Inflight service",
    "Cleanliness",
    "Departure Delay in Minutes",
    "Arrival Delay in Minutes",
    "satisfaction",
]
CREDIT = [
    "distance_from_home",
    "distance_from_last_transaction",
    "ratio_to_median_purchase_price",
    "repeat_retailer",
    "used_chip",
    "used_pin_number",
    "online_order",
    "fraud",
]
WORDS = ("goal", "market", "planet", "vote", "match", "stocks", "orbit", "party")


def write_csv(path, rows, header=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        gzip.open(path, "wt", newline="")
        if path.suffix == ".gz"
        else path.open("w", newline="") as file
    ):
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([*([header] if header else []), *rows])


def airline_rows(n, rng):
    for i in range(n):
        ratings = rng.integers(0, 6, 14).tolist()
        travel = rng.choice(["Personal Travel", "Business travel"])
        person = [rng.choice(["Male", "Female"]), "Loyal Customer", rng.integers(7, 80), travel]
        delay = "" if i == 1 else float(rng.integers(0, 60))
        label = ("satisfied", "neutral or dissatisfied")[i % 2]
        yield [i, 1000 + i, *person, "Eco", rng.integers(100, 4000), *ratings, 0, delay, label]


def airline(folder, other=False, n=60):
    write_csv(folder / "train.csv", airline_rows(n, np.random.default_rng(0)), AIRLINE)
    rows = list(airline_rows(20, np.random.default_rng(1)))
    if other:
        rows = [[*row[:5], "Moon", "First", 10**6, *row[8:]] for row in rows]
        rows = [[*row[:4], 999, *row[5:]] for row in rows]
    write_csv(folder / "test.csv.gz", rows, AIRLINE)


def credit_card(folder, other=False, n=100):
    from parbals_bench.datasets.credit_card import paper_split

    rng = np.random.default_rng(0)
    table = np.column_stack(
        [rng.lognormal(size=(n, 3)), rng.integers(0, 2, (n, 4)), np.arange(n) % 4 == 0]
    ).astype(float)
    if other:
        table[paper_split(n) != "train", :3] *= 1e6
    write_csv(folder / "card_transdata.csv", table.tolist(), CREDIT)


def text_rows(n, n_classes, n_texts, tail=""):
    for i in range(n):
        things = f"{WORDS[i % n_classes]} of {WORDS[(i // 3) % 8]}"
        text = f"the {things} was reported on day {i % 7}\\nagain{tail}"
        yield [
            i % n_classes + 1,
            *(text if j else f"title {WORDS[i % n_classes]}" for j in range(2 - n_texts, 2)),
        ]


def ag_news(folder, other=False):
    write_csv(folder / "train.csv", text_rows(80, 4, 2))
    write_csv(
        folder / "test.csv", text_rows(24, 4, 2, " zebra quagga party party" if other else "")
    )


def yelp(folder, other=False):
    write_csv(folder / "yelp_review_full_csv" / "train.csv", text_rows(80, 5, 1))
    write_csv(
        folder / "yelp_review_full_csv" / "test.csv",
        text_rows(24, 5, 1, " zebra party party" if other else ""),
    )


def civil_comments(folder, other=False):
    rows = [
        [
            i,
            f"comment {WORDS[i % 8]} {WORDS[i % 3]}"
            + (" zebra party party" if other and i % 4 == 0 else ""),
            split,
            i % 3 / 2,
            0.0,
        ]
        for i in range(120)
        for split in [("val" if i % 8 else "test") if i % 4 == 0 else "train"]
    ]
    write_csv(
        folder / "all_data_with_identities.csv",
        rows,
        ["", "comment_text", "split", "toxicity", "male"],
    )


def cifar_images(n, seed):
    return np.random.default_rng(seed).integers(0, 256, (n, 3072)).astype(np.uint8)


def cifar10(folder, other=False):
    inside = folder / "cifar-10-batches-bin"
    inside.mkdir(parents=True)
    for number in range(1, 7):
        images = cifar_images(10, 7 if other and number == 6 else number)
        name = "test_batch.bin" if number == 6 else f"data_batch_{number}.bin"
        (inside / name).write_bytes(
            np.column_stack([np.arange(10, dtype=np.uint8), images]).tobytes()
        )


def encoder_features(folder, encoder, counts, other=False, width=12):
    for seed, (part, n) in enumerate(counts.items()):
        rows = np.random.default_rng(
            seed + (50 if other and part != "train" else 0)
        ).standard_normal((n, width))
        np.save(folder / f"{encoder}_{part}.npy", rows.astype(np.float16))


def iwildcam(folder, other=False):
    split = ["train", "train", "train", "val", "test", "id_val"] * 10
    rows = [[s, i % 3, f"{i:04d}.jpg", i % 7, "2013-01-01"] for i, s in enumerate(split)]
    write_csv(
        folder / "metadata.csv", rows, ["split", "y", "filename", "location_remapped", "datetime"]
    )
    encoder_features(folder, "clip_vit_b32", {"train": 30, "val": 10, "test": 10}, other)


def fmow(folder, other=False):
    split = ["train", "train", "val", "test", "seq"]
    year = [2010, 2014, 2014, 2017, 2017, 2011]
    rows = [
        [split[i % 5], ("airport", "zoo")[i // 5 % 2], f"{year[i % 6]}-05-01T10:00:00Z", "FRA"]
        for i in range(120)
    ]
    write_csv(folder / "rgb_metadata.csv", rows, ["split", "category", "timestamp", "country_code"])
    n = {"train": 0, "val": 0, "test": 0}
    for part, _, time, _ in rows:
        era = "test" if time >= "2016" else "val" if time >= "2013" else "train"
        if part == era:
            n[part] += 1
    encoder_features(folder, "clip_vit_b32", n, other)


WRITERS = {
    "airline": airline,
    "credit-card": credit_card,
    "ag-news": ag_news,
    "yelp": yelp,
    "civil-comments": civil_comments,
    "cifar10": cifar10,
    "iwildcam": iwildcam,
    "fmow": fmow,
}
FEATURES = {"ag-news": "tfidf", "yelp": "tfidf", "civil-comments": "tfidf", "cifar10": "pixels"}


@pytest.fixture
def publish(tmp_path):
    """Write a publisher's files into a folder; returns the folder."""

    def call(name, other=False, **options):
        folder = tmp_path / f"{name}{' other' * other}"
        folder.mkdir(exist_ok=True)
        WRITERS[name](folder, other=other, **options)
        return folder

    return call


@pytest.fixture
def published(publish):
    """Load a dataset from such files."""
    from parbals_bench.datasets.table import load_dataset

    def call(name, other=False, features=None, seed=0):
        features = features or FEATURES.get(name, "auto")
        return load_dataset(name, publish(name, other), features=features, seed=seed)

    return call


@pytest.fixture
def make_csv():
    return write_csv


def pytest_generate_tests(metafunc):
    if "publisher" in metafunc.fixturenames:
        metafunc.parametrize("publisher", list(WRITERS))

"""`parbals bench data embed` writes features where the datasets look for them."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from parbals.cli.main import parbals
from parbals.errors import InputError
from parbals_bench.datasets.table import DATASETS, load_dataset
from parbals_label.encoders import ENCODERS, Encoder, Entry


class Lengths(Encoder):
    """Three numbers of a text: its length, its words, its vowels."""

    kind = "text"
    model = "lengths"

    def encode(self, prepared):
        counts = [
            (len(text), len(text.split()), sum(letter in "aeiou" for letter in text))
            for text in prepared
        ]
        return np.array(counts, np.float32)


@pytest.fixture(autouse=True)
def registered(monkeypatch, tmp_path):
    monkeypatch.setenv("PARBALS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(ENCODERS, "lengths", Entry(lambda name, options: Lengths(), "text"))


def run(*arguments):
    result = CliRunner().invoke(parbals, ["bench", "data", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def camera(publish):
    """iwildcam with its 50 images; the features that the publisher's folder came with are gone."""
    image = pytest.importorskip("PIL.Image", reason="images need Pillow")
    folder = publish("iwildcam")
    for path in folder.glob("clip_*.npy"):
        path.unlink()
    (folder / "train").mkdir()
    rng = np.random.default_rng(0)
    for i in range(60):
        image.fromarray(rng.integers(0, 256, (12, 12, 3)).astype(np.uint8)).save(
            folder / "train" / f"{i:04d}.jpg"
        )
    return folder


class TestTexts:
    def test_the_command_in_the_message_makes_what_was_missing(self, publish):
        folder = publish("ag-news")
        with pytest.raises(InputError) as caught:
            load_dataset("ag-news", folder, features="lengths")
        command = str(caught.value).split("`")[1].split()
        assert command[:4] == ["parbals", "bench", "data", "embed"]
        assert command[4:7] == ["ag-news", "--encoder", "lengths"]
        run(*command[3:])
        data = load_dataset("ag-news", folder, features="lengths")
        assert len(data.X_pool) == 80
        assert data.X_pool.shape[1] <= 3
        assert (
            load_dataset("ag-news", folder)
            .notes[-1]
            .startswith("features are of lengths, the paper's are of bert")
        )

    def test_the_message_says_how_to_choose_features(self, publish):
        folder = publish("ag-news")
        ways = (
            'in Python load_dataset("ag-news", "{folder}", features="{features}"), in a suite of '
            '`parbals bench run` a table [data.NAME] with dataset = "ag-news" and features = '
            '"{features}".'
        )
        with pytest.raises(InputError) as caught:
            load_dataset("ag-news", folder)
        assert "features tfidf need no encoder: " + ways.format(
            folder=folder, features="tfidf"
        ) in str(caught.value)
        for encoder in ("lengths", "others"):
            for part, n in (("train", 80), ("test", 24)):
                np.save(folder / f"{encoder}_{part}.npy", np.zeros((n, 3), np.float16))
        with pytest.raises(InputError) as caught:
            load_dataset("ag-news", folder)
        assert "features of lengths, others; choose one of them by name: " in str(caught.value)
        assert str(caught.value).endswith(ways.format(folder=folder, features="lengths"))

    def test_rows_belong_to_their_texts(self, publish):
        folder = publish("ag-news")
        run("embed", "ag-news", "--encoder", "lengths", "--data", folder)
        texts = DATASETS["ag-news"].read(folder).parts["test"].items
        np.testing.assert_array_equal(
            np.load(folder / "lengths_test.npy")[:, 0], [len(text) for text in texts]
        )

    def test_the_second_time_nothing_is_computed(self, publish):
        folder = publish("ag-news")
        embed = ("embed", "ag-news", "--encoder", "lengths", "--data", folder, "--json")
        assert [part["computed"] for part in json.loads(run(*embed))] == [80, 24]
        assert [part["computed"] for part in json.loads(run(*embed))] == [0, 0]
        assert "lengths_train.npy: 80 rows of 3, 0 computed now" in run(*embed[:-1])

    @pytest.mark.parametrize("ending", [".npy", "_f16.npy"])
    def test_features_made_elsewhere_are_not_replaced(self, publish, ending):
        folder = publish("ag-news")
        np.save(folder / f"lengths_test{ending}", np.zeros((24, 3), np.float16))
        output = run("embed", "ag-news", "--encoder", "lengths", "--data", folder)
        assert f"lengths_test{ending}: 24 rows of 3, 0 computed now" in output
        assert not np.load(folder / f"lengths_test{ending}").any()


class TestImages:
    def test_images_in_files(self, camera):
        with pytest.raises(InputError, match="parbals bench data embed iwildcam --encoder shapes"):
            load_dataset("iwildcam", camera, features="shapes")
        run("embed", "iwildcam", "--encoder", "shapes", "--data", camera)
        data = load_dataset("iwildcam", camera, features="shapes")
        assert (len(data.X_pool), len(data.X_target_source), len(data.X_test)) == (30, 10, 10)

    def test_unreadable_images_stop_it_or_are_blank(self, camera):
        (camera / "train" / "0001.jpg").write_bytes(b"no image")  # the second of train
        (camera / "train" / "0004.jpg").unlink()  # the first of test
        embed = ("embed", "iwildcam", "--encoder", "shapes", "--data", camera)
        with pytest.raises(
            InputError, match=r"1 of 30 images cannot be read: .*0001\.jpg \(cannot identify"
        ):
            run(*embed)
        output = run(*embed, "--skip-bad")
        assert output.count("; 1 could not be read, first ") == 2
        data = load_dataset("iwildcam", camera, features="shapes")
        assert len(data.X_pool) == len(data.y_pool) == 30
        np.testing.assert_allclose(data.X_pool[1], data.X_pool.mean(axis=0), atol=1e-5)

    def test_images_that_are_arrays(self, publish, monkeypatch):
        pytest.importorskip("PIL.Image", reason="images need Pillow")
        folder = publish("cifar10")
        monkeypatch.setitem(ENCODERS, "small", ENCODERS["shapes"])
        run("embed", "cifar10", "--encoder", "small", "--data", folder)
        data = load_dataset("cifar10", folder, features="small")
        assert (len(data.X_pool), len(data.X_test)) == (50, 5)

    def test_an_encoder_of_texts_is_refused(self, camera):
        with pytest.raises(InputError, match="lengths reads texts, not images"):
            run("embed", "iwildcam", "--encoder", "lengths", "--data", camera)


class TestRefused:
    @pytest.mark.parametrize(("name", "encoder"), [("ag-news", "tfidf"), ("cifar10", "pixels")])
    def test_what_needs_no_embedding_says_so(self, publish, name, encoder):
        with pytest.raises(
            InputError, match=f"Features {encoder} of {name} are made when it is loaded"
        ):
            run("embed", name, "--encoder", encoder, "--data", publish(name))

    def test_a_table_has_nothing_to_encode(self):
        with pytest.raises(InputError, match="airline has neither texts nor images"):
            run("embed", "airline", "--encoder", "shapes")

    def test_labels_without_images(self, tmp_path):
        for part in ("train", "test"):
            np.save(tmp_path / f"y_{part}.npy", np.arange(10, dtype=np.uint8))
        with pytest.raises(
            InputError, match=r"holds the labels of cifar10 \(train\) but not its images"
        ):
            run("embed", "cifar10", "--encoder", "clip-vit-b32", "--data", tmp_path)
        with pytest.raises(InputError, match="its images are not in"):
            load_dataset("cifar10", tmp_path)

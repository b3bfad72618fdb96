"""Every dataset reads its publisher's files, divides them as the paper does, and leaks nothing."""

import gzip
import shutil
import tarfile

import numpy as np
import pytest
from parbals.errors import InputError, LabelError
from parbals_bench.datasets import cifar10
from parbals_bench.datasets.credit_card import paper_split
from parbals_bench.datasets.table import DATASETS, dataset_named, load_dataset

SIZES = {  # pool, target source, test
    "airline": (60, 10, 10),
    "credit-card": (60, 20, 20),
    "ag-news": (80, 12, 12),
    "yelp": (80, 12, 12),
    "civil-comments": (90, 15, 15),
    "cifar10": (50, 5, 5),
    "iwildcam": (30, 10, 10),
    "fmow": (16, 8, 8),
}


def test_files_are_read_and_divided_as_in_the_paper(publisher, published):
    data = published(publisher)
    assert (len(data.X_pool), len(data.X_target_source), len(data.X_test)) == SIZES[publisher]
    assert data.X_pool.dtype == np.float32
    assert np.isfinite(data.X_pool).all()
    assert set(data.y_pool.tolist()) | set(data.y_test.tolist()) <= set(range(len(data.classes)))
    assert any("published rows" in note for note in data.notes)


def test_nothing_that_the_pool_shows_depends_on_other_rows(publisher, published):
    """Bins, vocabularies and directions are those of the pool: other test rows leave every pool
    feature as it was."""
    before = published(publisher)
    after = published(publisher, other=True)
    np.testing.assert_array_equal(before.X_pool, after.X_pool)
    np.testing.assert_array_equal(before.y_pool, after.y_pool)
    assert not np.array_equal(before.X_test, after.X_test)


def test_the_seed_of_an_experiment_does_not_move_published_rows(publisher, published):
    if publisher in ("ag-news", "yelp", "civil-comments"):
        pytest.skip("the seed draws the random projection of tfidf")
    one = published(publisher)
    two = published(publisher, other=True, seed=5)
    np.testing.assert_array_equal(one.y_test, two.y_test)
    np.testing.assert_array_equal(one.X_pool, two.X_pool)


@pytest.mark.parametrize("name", [name for name, dataset in DATASETS.items() if dataset.origin])
def test_missing_files_are_named_with_their_address_and_place(name, tmp_path):
    origin = DATASETS[name].origin
    with pytest.raises(InputError) as caught:
        load_dataset(name, tmp_path)
    message = str(caught.value)
    assert origin.page in message
    assert all(str(tmp_path / file) in message for file in origin.files)
    assert ("curl" in message) == bool(origin.urls)


def test_the_environment_names_the_folder(publish, monkeypatch):
    folder = publish("airline")
    monkeypatch.setenv("PARBALS_DATA", str(folder.parent))
    assert len(load_dataset("airline").X_pool) == 60


def test_names_are_looked_up():
    with pytest.raises(InputError, match="no dataset 'mnist'; choose one of: airline, credit-card"):
        dataset_named("mnist")


class TestAirline:
    def test_columns_become_bins_and_slots(self, published):
        data = published("airline")
        assert data.classes == ("neutral or dissatisfied", "satisfied")
        np.testing.assert_array_equal(data.X_pool.sum(axis=1), 22)

    def test_a_wrong_column_is_named(self, publish):
        folder = publish("airline")
        text = (folder / "train.csv").read_text()
        (folder / "train.csv").write_text(text.replace('"Age"', '"Years"'))
        with pytest.raises(InputError, match=r"train\.csv has no column 'Age'"):
            load_dataset("airline", folder)

    def test_a_wrong_label_and_a_wrong_number_are_placed(self, publish):
        folder = publish("airline")
        text = (folder / "train.csv").read_text()
        (folder / "train.csv").write_text(text.replace('"satisfied"', '"happy"', 1))
        with pytest.raises(
            LabelError, match=r"train\.csv, row 2, column 'satisfaction' is 'happy'"
        ):
            load_dataset("airline", folder)
        lines = text.splitlines()
        lines[3] = lines[3].replace('"Eco","', '"Eco","x')
        (folder / "train.csv").write_text("\n".join(lines))
        with pytest.raises(InputError, match="row 4, column 'Flight Distance' is 'x"):
            load_dataset("airline", folder)

    def test_a_file_cut_short_is_reported(self, publish):
        folder = publish("airline")
        whole = (folder / "test.csv.gz").read_bytes()
        (folder / "test.csv.gz").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError, match=r"test\.csv\.gz cannot be read: it is damaged"):
            load_dataset("airline", folder)
        text = gzip.decompress(whole)
        (folder / "test.csv.gz").write_bytes(gzip.compress(text[: text.rindex(b",")]))
        with pytest.raises(InputError, match=r"test\.csv\.gz, row 21"):
            load_dataset("airline", folder)

    def test_features_it_does_not_have_are_refused(self, publish):
        with pytest.raises(
            InputError,
            match="features is 'bert'; choose one of: auto, tabular, tabular-qcut, tabular-values",
        ):
            load_dataset("airline", publish("airline"), features="bert")


class TestCreditCard:
    def test_the_split_is_scikit_learns(self):
        """The paper divided with train_test_split(test_size=0.4, random_state=42), and the rest in
        halves likewise."""
        from sklearn.model_selection import train_test_split

        for n in (10, 997, 10_000):
            train, rest = train_test_split(np.arange(n), test_size=0.4, random_state=42)
            val, test = train_test_split(rest, test_size=0.5, random_state=42)
            split = paper_split(n)
            assert (set(split[train]), set(split[val]), set(split[test])) == (
                {"train"},
                {"val"},
                {"test"},
            )

    def test_parquet_with_its_split(self, tmp_path):
        import pyarrow as pa
        import pyarrow.parquet as pq

        rng = np.random.default_rng(0)
        columns = dict.fromkeys(
            ("distance_from_home", "distance_from_last_transaction"), rng.lognormal(size=40)
        )
        columns |= {"ratio_to_median_purchase_price": rng.lognormal(size=40), "row": np.arange(40)}
        flags = ("repeat_retailer", "used_chip", "used_pin_number", "online_order", "fraud")
        columns |= {
            name: (np.arange(40) % (k + 2) == 0).astype(float) for k, name in enumerate(flags)
        }
        columns["paper_split"] = ["train"] * 20 + ["val"] * 12 + ["test"] * 8
        pq.write_table(pa.table(columns), tmp_path / "card_transdata_tiny.parquet")
        data = load_dataset("credit-card", tmp_path)
        assert (len(data.X_pool), len(data.X_target_source), len(data.X_test)) == (20, 12, 8)
        assert (
            data.X_pool.shape[1] < 3 * 10 + 4 * 2
        )  # deciles alone join values; row and paper_split are no features
        assert any("0/1 column" in note for note in data.notes)
        data = load_dataset("credit-card", tmp_path, features="tabular-values")
        assert data.X_pool.shape[1] == 3 * 10 + 4 * 2


class TestTexts:
    def test_title_and_description_are_one_text_with_real_line_breaks(self, publish):
        raw = DATASETS["ag-news"].read(publish("ag-news"))
        assert (
            raw.parts["train"].items[0]
            == "title goal the goal of goal was reported on day 0\nagain"
        )
        assert raw.parts["train"].y[:5].tolist() == [0, 1, 2, 3, 0]

    def test_an_archive_may_stay_packed(self, publish):
        folder = publish("yelp")
        with tarfile.open(folder / "yelp_review_full_csv.tgz", "w:gz") as tar:
            tar.add(folder / "yelp_review_full_csv", "yelp_review_full_csv")
        unpacked = load_dataset("yelp", folder, features="tfidf")
        shutil.rmtree(folder / "yelp_review_full_csv")
        np.testing.assert_array_equal(
            load_dataset("yelp", folder, features="tfidf").X_pool, unpacked.X_pool
        )

    def test_a_class_that_is_not_published_is_placed(self, publish, make_csv):
        folder = publish("ag-news")
        make_csv(folder / "train.csv", [[1, "a", "b"], [5, "c", "d"]])
        with pytest.raises(LabelError, match=r"train\.csv, row 2, column 'class index' is '5'"):
            load_dataset("ag-news", folder, features="tfidf")

    def test_without_features_the_command_that_makes_them_is_named(self, publish):
        folder = publish("ag-news")
        with pytest.raises(InputError) as caught:
            load_dataset("ag-news", folder)
        assert "no features of bert-base-uncased yet" in str(caught.value)
        assert str(folder / "bert_base_uncased_train.npy") in str(caught.value)

    def test_cached_features_are_used(self, publish):
        folder = publish("ag-news")
        for part, n in (("train", 80), ("test", 24)):
            np.save(
                folder / f"mini_{part}_f16.npy",
                np.random.default_rng(n).standard_normal((n, 9)).astype(np.float16),
            )
        data = load_dataset("ag-news", folder)
        assert data.X_pool.shape == (80, 9)
        assert "features are of mini, the paper's are of bert-base-uncased" in data.notes
        np.save(folder / "mini_test_f16.npy", np.zeros((23, 9)))
        with pytest.raises(
            InputError, match=r"mini_test_f16\.npy has 23 rows but ag-news \(test\) has 24"
        ):
            load_dataset("ag-news", folder)

    def test_features_with_objects_are_never_unpickled(self, publish):
        folder = publish("ag-news")
        np.save(folder / "mini_train.npy", np.array([{}] * 80, dtype=object), allow_pickle=True)
        np.save(folder / "mini_test.npy", np.zeros((24, 3)))
        with pytest.raises(InputError, match=r"mini_train\.npy cannot be read"):
            load_dataset("ag-news", folder, features="mini")


class TestImages:
    def test_colours_of_a_pixel_lie_together(self, publish):
        folder = publish("cifar10")
        first = np.frombuffer(
            (folder / "cifar-10-batches-bin" / "data_batch_1.bin").read_bytes()[1:3073], np.uint8
        )
        images = cifar10.read(folder).parts["train"].items
        assert images.shape == (50, 32, 32, 3)
        np.testing.assert_array_equal(images[0, 0, 1], first[[1, 1025, 2049]])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda content: content[:-1], "is not a whole number of images of 3073 bytes"),
            (lambda content: b"\x0a" + content[1:], "image 0 has the class 10; 0 to 9 are known"),
        ],
    )
    def test_damaged_images_are_named(self, publish, change, message):
        folder = publish("cifar10")
        path = folder / "cifar-10-batches-bin" / "data_batch_3.bin"
        path.write_bytes(change(path.read_bytes()))
        with pytest.raises(InputError, match=rf"data_batch_3\.bin.* {message}"):
            cifar10.read(folder)

    def test_rows_sorted_by_class_are_shuffled(self, tmp_path):
        y = np.repeat(np.arange(10), 5)
        for part in ("train", "test"):
            np.save(tmp_path / f"y_{part}.npy", y.astype(np.uint8))
            np.save(tmp_path / f"net_{part}.npy", np.eye(10, dtype=np.float16)[y])
        data = load_dataset("cifar10", tmp_path)
        assert (np.diff(data.y_pool) < 0).any()
        assert len(set(data.y_test.tolist())) > 5
        # Features went along with their labels: all rows of one class are alike.
        for c in range(10):
            assert np.ptp(data.X_pool[data.y_pool == c], axis=0).max() < 1e-6

    def test_shifted_splits_of_iwildcam(self, publish):
        raw = DATASETS["iwildcam"].read(publish("iwildcam"))
        assert raw.classes[:2] == ("empty", "species 1")
        assert raw.parts["val"].items[0].parts[-2:] == ("train", "0003.jpg")

    def test_fmow_counts_an_image_only_where_split_and_year_agree(self, publish):
        raw = DATASETS["fmow"].read(publish("fmow"))
        assert raw.classes == ("airport", "zoo")
        assert [path.name for path in raw.parts["test"].items][:2] == [
            "rgb_img_3.png",
            "rgb_img_28.png",
        ]

    def test_more_rows_than_published_is_another_file(self, publish, monkeypatch):
        monkeypatch.setitem(cifar10._N_PUBLISHED, "train", 49)
        with pytest.raises(InputError, match="has 50 rows, more than the 49 published"):
            cifar10.read(publish("cifar10"))

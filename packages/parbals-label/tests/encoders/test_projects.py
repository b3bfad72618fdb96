"""Projects take every encoder: the same commands, sensible features, bounded memory."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from dose import full_count
from letters import ENTRY, NAME, TEXTS, Letters
from parbals.cli.main import parbals
from parbals.errors import InputError
from parbals_label.encoders import ENCODERS, Entry, Options, table
from parbals_label.project.create import Roles, create_project
from parbals_label.project.embedding import embed_project
from parbals_label.project.features import load_features
from parbals_label.store.store import Store


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(ENCODERS, NAME, ENTRY)


@pytest.fixture
def messages(tmp_path):
    path = tmp_path / "messages.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [["id", "text", "length"], *([i, text, len(text)] for i, text in enumerate(TEXTS))]
        )
    return path


@pytest.fixture
def photos(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="images need Pillow")
    rng = np.random.default_rng(0)
    rows = [["id", "photo"]]
    (tmp_path / "photos").mkdir()
    for i in range(12):
        image.fromarray(rng.integers(0, 256, (20, 20, 3)).astype(np.uint8)).save(
            tmp_path / "photos" / f"{i}.png"
        )
        rows.append([f"p{i}", f"photos/{i}.png"])
    with open(tmp_path / "photos.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return tmp_path / "photos.csv"


def create(folder, data, settings=None, **options):
    roles = Roles(image="photo") if "photo" in data.name else Roles(text=("text",))
    return create_project(folder, data, roles, ["a", "b"], settings or {}, **options)


def features(folder):
    with Store.open(folder) as store:
        return load_features(folder, store.settings.features, verify=True), store.settings


class TestCommands:
    def run(self, *arguments):
        result = CliRunner().invoke(parbals, [str(a) for a in arguments])
        assert result.exit_code == 0, (result.output, result.exception)
        return result.output

    def test_init_and_embed_take_any_encoder(self, messages, tmp_path):
        options = ["--text", "text", "--classes", "a,b", "--json"]
        made = json.loads(self.run("init", tmp_path / "p", messages, "--encoder", NAME, *options))
        assert (made["items"], made["encoder"]) == (90, NAME)
        assert 1 <= made["features"] <= 8
        assert "features by words" in self.run("embed", tmp_path / "p", "--encoder", "words")
        assert "1 features by columns" in self.run(
            "embed", tmp_path / "p", "--encoder", "columns", "--columns", "length"
        )
        assert json.loads(
            self.run("embed", tmp_path / "p", "--encoder", NAME, "--columns", "text", "--json")
        )

    def test_a_project_whose_encoder_has_left_for_a_package_goes_on(
        self, messages, tmp_path, monkeypatch
    ):
        monkeypatch.setitem(ENCODERS, "efficientnet-lite0", ENTRY)
        create(tmp_path / "p", messages, {"strategy": "random"}, encoder="efficientnet-lite0")
        monkeypatch.delitem(ENCODERS, "efficientnet-lite0")
        monkeypatch.setattr(table, "other_entries", lambda *group: {})
        batch = tmp_path / "batch.csv"
        self.run("next", tmp_path / "p", "-n", "3", "--out", batch)
        batch.write_text("id,label\n1,a\n2,b\n")
        assert "2 " in self.run("tell", tmp_path / "p", batch, "--no-report")
        with (
            Store.open(tmp_path / "p") as store,
            pytest.raises(InputError, match="There is no encoder 'efficientnet-lite0'"),
        ):
            embed_project(store, "efficientnet-lite0", None, lambda stage, done, total: None)

    def test_an_encoder_that_is_not_there_stops_before_anything_is_read(self, messages, tmp_path):
        with pytest.raises(
            InputError, match=r"no encoder 'nope'; choose one of: .*shapes.*columns"
        ):
            create(tmp_path / "p", messages, encoder="nope")
        assert not (tmp_path / "p").exists()


class TestFeatures:
    def test_rows_are_centred_and_three_long_on_the_average(self, messages, tmp_path):
        create(tmp_path / "p", messages, encoder=NAME)
        rows, settings = features(tmp_path / "p")
        np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-4)
        assert np.sqrt(np.square(rows).sum(axis=1).mean()) == pytest.approx(3.0, rel=1e-4)
        assert settings.encoded_kind == "text"
        raw = Letters().encode(TEXTS)
        distances = [np.linalg.norm(x[:1] - x, axis=1) for x in (raw, rows)]
        assert np.corrcoef(*distances)[0, 1] > 0.99  # 99 % of the variance are kept

    def test_the_cache_is_empty_when_the_features_are_stored(self, messages, tmp_path):
        create(tmp_path / "p", messages, encoder=NAME)
        assert list((tmp_path / "cache" / "embeddings").iterdir()) == []

    def test_shapes_of_photos(self, photos, tmp_path):
        made = create(tmp_path / "p", photos, encoder="auto")
        assert made.encoder == "shapes"
        rows, _ = features(tmp_path / "p")
        assert np.sqrt(np.square(rows).sum(axis=1).mean()) == pytest.approx(3.0, rel=1e-4)

    def test_an_encoder_of_texts_does_not_read_file_names(self, photos, tmp_path):
        with pytest.raises(InputError, match="letters reads texts, not images"):
            create(tmp_path / "p", photos, encoder=NAME)
        create(tmp_path / "p", photos)
        with (
            Store.open(tmp_path / "p") as store,
            pytest.raises(InputError, match="words reads texts, not images"),
        ):
            embed_project(store, "words", None, lambda stage, done, total: None)

    def test_a_column_that_is_not_there_is_named(self, messages, tmp_path):
        create(tmp_path / "p", messages)
        with (
            Store.open(tmp_path / "p") as store,
            pytest.raises(InputError, match="no column 'body'; it has text, length"),
        ):
            embed_project(store, NAME, ["body"], lambda stage, done, total: None)


class TestUnreadable:
    def test_images_are_named_by_item_and_nothing_is_made(self, photos, tmp_path):
        (tmp_path / "photos" / "3.png").write_bytes(b"")
        with pytest.raises(
            InputError, match=r"1 of 12 images cannot be read: image of item 'p3', .*3\.png"
        ):
            create(tmp_path / "p", photos)
        assert not (tmp_path / "p").exists()

    def test_on_request_they_are_zero_and_remembered(self, photos, tmp_path):
        (tmp_path / "photos" / "3.png").write_bytes(b"")
        create(tmp_path / "p", photos, encode_with=Options(skip_bad=True))
        rows, settings = features(tmp_path / "p")
        assert settings.unreadable == (3,)
        np.testing.assert_allclose(rows[3], 0, atol=1e-5)
        assert np.abs(np.delete(rows, 3, axis=0)).max(axis=1).min() > 0.1


class TestInterrupted:
    def test_init_goes_on_with_the_rows_that_were_done(self, tmp_path, monkeypatch):
        texts = [f"{text} {i}" for i, text in enumerate(TEXTS * 10)]
        path = tmp_path / "many.csv"
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["text"], *([text] for text in texts)])
        encoders = []

        def load(name, options):
            encoders.append(Letters())
            return encoders[-1]

        class Cut(Exception):
            pass

        def cut(stage, done, total):
            if stage == "encoding" and done >= 512:
                raise Cut

        monkeypatch.setitem(ENCODERS, NAME, Entry(load, "text"))
        with pytest.raises(Cut):
            create(tmp_path / "p", path, encoder=NAME, progress=cut)
        assert not (tmp_path / "p").exists()
        create(tmp_path / "p", path, encoder=NAME)
        create(tmp_path / "whole", path, encoder=NAME)
        assert [len(encoder.encoded) for encoder in encoders] == [512, 388, 900]
        np.testing.assert_array_equal(features(tmp_path / "p")[0], features(tmp_path / "whole")[0])


MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np
from parbals_label.encoders import Encoder
from parbals_label.project.embedding import Recipe, encode

class Wide(Encoder):
    kind, model = "text", "wide"
    directions = np.random.default_rng(0).standard_normal((6, 256)).astype(np.float32)
    def encode(self, prepared):
        waves = np.sin(np.outer([int(text) for text in prepared], range(1, 7)))
        return waves.astype(np.float32) @ self.directions

def peak(count):
    items = lambda: ((str(i), {"text": str(i)}) for i in range(count))
    recipe = Recipe("wide", Wide(), ["text"])
    encoded = encode(recipe, items, count, lambda stage, done, total: None, Path(sys.argv[2]))
    assert encoded.features.shape == (count, 6), encoded.features.shape
    encoded.discard_cache()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

small, large = peak(3000), peak(int(sys.argv[1]))
print(large - small)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is measured in Linux' units")
class TestMemory:
    def grown(self, n_items, tmp_path):
        command = [sys.executable, "-c", MEMORY, str(n_items), str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    @pytest.mark.full
    def test_memory_does_not_grow_with_the_items(self, tmp_path):
        """Rows of 61 MB are made and reduced; the PCA of 20,000 of them takes 85 MB in any case."""
        assert self.grown(60_000, tmp_path) < 120

    @pytest.mark.faults
    def test_nor_with_a_million(self, tmp_path):
        assert self.grown(full_count(1_000_000, least=60_000), tmp_path) < 120

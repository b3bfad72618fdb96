"""Fine-tune a project's encoder: cross-fitted evaluation, resumable, all or nothing."""

import csv
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import parbals as parbals_module
import pytest
from adapting_killed import WHERE, kill_adapting
from click.testing import CliRunner
from parbals.cli.main import parbals
from parbals.errors import InputError, MissingDependencyError, ProjectDamagedError, ProjectError
from parbals.wording import percent
from parbals_label.encoders import Options, adapt
from parbals_label.project import adapting
from parbals_label.project.adapting import adapt_project
from parbals_label.project.backup import check_project, restore_backup, write_backup
from parbals_label.project.choose import choose_batch
from parbals_label.project.create import Roles, create_project
from parbals_label.project.embedding import embed_project
from parbals_label.project.engine import learner_of, refresh
from parbals_label.project.features import features_of, held_out_of, is_adapted, load_features
from parbals_label.project.summary import overview
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

WORDS = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), "up", "down", *"abcdef"]
N_ITEMS, AUDIT = 150, 15


def silent(stage, done, total):
    pass


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A tiny BERT with random weights."""
    torch = pytest.importorskip("torch", reason="adapting needs torch")
    transformers = pytest.importorskip("transformers", reason="adapting needs transformers")
    folder = tmp_path_factory.mktemp("base") / "tiny"
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    size |= {"intermediate_size": 32, "max_position_embeddings": 32}
    config = transformers.BertConfig(vocab_size=len(WORDS), **size)
    transformers.BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    described = {"tokenizer_class": "BertTokenizer", "model_max_length": 32}
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    return folder


def texts():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, N_ITEMS)
    noise = ["".join(rng.choice(list("abcdef"), 1)) for _ in range(8 * N_ITEMS)]
    return kind, [
        " ".join([*noise[8 * i : 8 * i + 7], ("up", "down")[k], noise[8 * i + 7]])
        for i, k in enumerate(kind)
    ]


@pytest.fixture
def project(base, tmp_path):
    return made(tmp_path / "p", base, tmp_path)


def made(folder, base, tmp_path, n_labels=60):
    kind, some = texts()
    with open(tmp_path / "texts.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text"], *([text] for text in some)])
    create_project(
        folder,
        tmp_path / "texts.csv",
        Roles(text=("text",)),
        ["rise", "fall"],
        {},
        audit=AUDIT,
        encoder=f"hf:{base}",
        encode_with=Options(device="cpu"),
    )
    with Store.open(folder) as store:
        names = store.classes
        store.submit([Submission(p, names[kind[p]]) for p in range(n_labels)], annotator="me")
    return folder


def features(folder):
    with Store.open(folder) as store:
        return np.array(load_features(folder, store.settings.features, verify=True))


class TestAdapting:
    def test_everything_follows_the_new_features(self, project, tmp_path):
        frozen = features(project)
        with Store.open(project) as store:
            refresh(store)
            old = store.settings
            found = adapt_project(store, silent, force=True)
            assert found.used
            assert is_adapted(store.settings.encoder)
            assert store.settings.predictions is None  # they were of the old features
            assert not (project / old.predictions.file).exists()
            assert not (project / old.features.file).exists()
            refresh(store)
            choose_batch(store, 3)
        assert features(project).shape[0] == frozen.shape[0]
        (tmp_path / "new.csv").write_text("text\na b up c\nd e down f\n")
        out = tmp_path / "out.csv"
        run("predict", project, tmp_path / "new.csv", "--out", out)
        assert len(out.read_text().splitlines()) == 3

    def test_the_audit_and_its_copies_teach_nothing(self, project, monkeypatch):
        taught = []
        tune = adapt.fine_tune
        monkeypatch.setattr(
            adapting, "fine_tune", lambda e, t, *rest: (taught.append(t), tune(e, t, *rest))
        )
        with Store.open(project) as store:
            adapt_project(store, silent, force=True)
            learner = learner_of(store)
            assert len(learner.state.audited)
            assert held_out_of(store)[0] == learner.state.training_labels[0].tolist()
        _, some = texts()
        unseen = {some[p] for p in learner.audit.tolist()}
        assert len(taught) == 4  # three parts, then all
        assert not unseen & {text for part in taught for text in part}

    def test_held_out_predictions_are_by_encoders_that_had_not_seen_the_label(
        self, project, monkeypatch
    ):
        """Labels that say nothing: left-out predictions of adapted features believe them."""
        rng = np.random.default_rng(1)

        def rows(encoder, texts, numbers, *rest):
            known = dict(zip(texts, numbers.tolist(), strict=True))
            encoder.encode = lambda prepared: np.array(
                [
                    [10.0 * known[t] - 5.0, 1.0] if t in known else rng.normal(size=2)
                    for t in prepared
                ]
            ).astype(np.float32)

        monkeypatch.setattr(adapting, "fine_tune", rows)
        monkeypatch.setattr(adapting, "save_encoder", lambda encoder, base, folder: folder.mkdir())
        monkeypatch.setattr(adapting, "open_adapted", lambda folder, options: Learnt(project))
        with Store.open(project) as store:
            found = adapt_project(store, silent, force=True)
            learner = learner_of(store)
            honest = learner.state.cross_validated_predictions(learner.fitted())
            naive = learner.fitted().gaussian.leave_one_out()[1]
        assert 0.3 < found.error < 0.7
        wrong = honest[0].argmax(axis=1) != honest[1]
        assert len(wrong) == len(naive)
        assert wrong.mean() == pytest.approx(found.error)
        numbers = learner.state.training_labels[1]
        assert (naive.argmax(axis=1) != numbers).mean() < 0.05

    def test_one_that_is_no_better_is_not_taken(self, project, monkeypatch):
        losses = [0.5, 0.6]  # from its end: adapted, frozen
        monkeypatch.setattr(
            adapting, "_error_and_log_loss", lambda probs, class_indices: (0.2, losses.pop())
        )
        before = features(project)
        with Store.open(project) as store:
            found = adapt_project(store, silent)
            assert not found.used
            assert not is_adapted(store.settings.encoder)
            assert run_json("team", "log", project)[0]["detail"]["used"] is False
        np.testing.assert_array_equal(features(project), before)
        assert not list(project.glob("encoder-*"))

    def test_again_it_starts_from_the_same_encoder(self, project):
        with Store.open(project) as store:
            first = adapt_project(store, silent, force=True)
            store.submit([Submission(100, "rise")], annotator="me")
            second = adapt_project(store, silent, force=True)
            assert second.n_labels == first.n_labels + 1
            assert [path.name for path in project.glob("encoder-*")] == [second.encoder]
            embed_project(store, "words", None, silent)
        assert not list(project.glob("encoder-*"))

    def test_a_backup_holds_it(self, project, tmp_path):
        with Store.open(project) as store:
            found = adapt_project(store, silent, force=True)
        write_backup(project, tmp_path / "b.zip")
        restore_backup(tmp_path / "b.zip", tmp_path / "back")
        assert check_project(tmp_path / "back")[1] == []
        with Store.open(tmp_path / "back") as store:
            assert len(held_out_of(store)[0]) == found.n_labels
        (tmp_path / "back" / found.encoder / "config.json").write_text("{}")
        assert "not what was written" in check_project(tmp_path / "back")[1][0]
        (tmp_path / "back" / found.encoder / "parbals.json").unlink()
        with Store.open(tmp_path / "back") as store, pytest.raises(ProjectDamagedError):
            learner_of(store)


class Learnt:
    """Rows by which the final encoder knows its labels by heart."""

    kind, reduced, model, dtype = "text", False, "learnt", "<f4"

    def __init__(self, folder):
        with Store.open(folder, read_only=True) as store:
            votes = {p: next(iter(v.values())) for p, v in store.votes().items()}
            items = list(store.iter_items())
            self.known = {
                items[p].content["text"]: store.classes.index(label) for p, label in votes.items()
            }
        self.rng = np.random.default_rng(2)

    def fit(self, items, n_items):
        pass

    def prepare(self, item):
        return item

    def size(self, prepared):
        return 0

    def encode(self, prepared):
        rows = [
            [10.0 * self.known[t] - 5.0, 1.0] if t in self.known else self.rng.normal(size=2)
            for t in prepared
        ]
        return np.array(rows).astype(np.float32)


class TestInterrupted:
    @pytest.mark.parametrize("where", WHERE)
    def test_a_kill_leaves_the_old_features_or_the_new(self, where, project):
        frozen = features(project)
        kill_adapting(project, where)
        assert check_project(project)[1] == []
        with Store.open(project) as store:
            is_new = is_adapted(store.settings.encoder)
            assert is_new == (where == "stored")
            assert store.n_labelled == 60
            choose_batch(store, 2)
        if not is_new:
            np.testing.assert_array_equal(features(project), frozen)
        with Store.open(project) as store:
            found = adapt_project(store, silent, force=True)
        assert [path.name for path in project.glob("encoder-*")] == [found.encoder]
        assert check_project(project)[1] == []

    def test_it_goes_on_with_the_part_it_was_at(self, project, monkeypatch):
        taught = []
        tune = adapt.fine_tune
        monkeypatch.setattr(
            adapting, "fine_tune", lambda e, t, *rest: (taught.append(len(t)), tune(e, t, *rest))
        )

        class Cut(Exception):
            pass

        def cut(stage, done, total):
            if stage == "training on all labels" and done:
                raise Cut

        with Store.open(project) as store:
            with pytest.raises(Cut):
                adapt_project(store, cut, force=True)
            adapt_project(store, silent, force=True)
        n_labels = taught[-1]
        assert len(taught) == 5  # three parts and all, and all again
        assert taught[-2:] == [n_labels, n_labels]
        assert list((Path(os.environ["PARBALS_CACHE_DIR"]) / "adapted").iterdir()) == []

    def test_training_resumes_at_the_step_it_was_at(self, project):
        class Cut(Exception):
            pass

        steps = []

        def cut(stage, done, total):
            steps.append((stage, done))
            if stage == "training on a fold" and done == 35:
                raise Cut

        with Store.open(project) as store:
            with pytest.raises(Cut):
                adapt_project(store, cut, force=True)
            steps.clear()
            adapt_project(store, lambda *progress: steps.append(progress[:2]), force=True)
        resumed = [done for stage, done in steps if stage == "training on a fold"]
        assert resumed[:3] == [30, 35, 36]  # the first fold was finished, the second begun

    def test_items_that_came_meanwhile_are_not_lost(self, project):
        def meanwhile(stage, done, total):
            if stage == "encoding" and done == total:
                store.update_settings(features=None)

        with Store.open(project) as store, pytest.raises(ProjectError, match="meanwhile"):
            adapt_project(store, meanwhile, force=True)


class TestOnThePage:
    def test_a_worker_that_is_killed_leaves_the_old_features_and_the_next_one_goes_on(
        self, base, tmp_path
    ):
        folder = made(tmp_path / "page", base, tmp_path, n_labels=130)
        frozen = features(folder)
        with Store.open(folder) as store:
            store.update_settings(adapt=True)
        assert step(folder, tmp_path, "on all labels").returncode == -signal.SIGKILL
        with Store.open(folder) as store:
            assert not is_adapted(store.settings.encoder)
        np.testing.assert_array_equal(features(folder), frozen)
        said = step(folder, tmp_path, "never").stdout
        assert said.count("training on a fold") == 3, "the folds were kept: a step each"
        assert said.splitlines()[-1] == "{'adapting': None}"
        with Store.open(folder, read_only=True) as store:
            assert is_adapted(store.settings.encoder)
            assert "Encoder fine-tuned on" in overview(store).features
        assert check_project(folder)[1] == []


STEP = """
import os, signal, sys
from pathlib import Path
from parbals_label.project import adapting
from parbals_label.store.store import Store
from parbals_label.web import worker

def say(**words):
    print(words, flush=True)
    if sys.argv[2] in str(words):
        os.kill(os.getpid(), signal.SIGKILL)

worker._PROGRESS_SECONDS = 0.0
adapting._error_and_log_loss = lambda probs, class_indices, loss=iter([0.1, 0.2]): (0.2, next(loss))
with Store.open(Path(sys.argv[1])) as store:
    assert worker.Adapter(store, say).step()
"""


def step(folder, tmp_path, until):
    """What the page's worker does in its third thread, killed when it says ``until``."""
    (tmp_path / "step.py").write_text(STEP)
    command = [sys.executable, str(tmp_path / "step.py"), str(folder), until]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class TestLeavingWithIt:
    def test_transformers_alone_predicts_as_the_page_says(self, project, tmp_path, monkeypatch):
        with Store.open(project) as store:
            adapt_project(store, silent, force=True)
        monkeypatch.chdir(tmp_path)
        said = run("export", project, "--model", tmp_path / "spam-model")
        assert "transformers alone" in said
        page = (Path(__file__).parents[4] / "docs" / "howto" / "predict.md").read_text("utf-8")
        recipe = next(part for part in page.split("```") if "AutoTokenizer" in part)
        _, some = texts()
        recipe = recipe.removeprefix("python\n")
        names = {"texts": some}
        exec(recipe.replace('["You have won a prize", "See you at six"]', "texts"), names)
        learner = parbals_module.open(project)
        probs = learner.predict_proba(learner.pool.rows(np.arange(N_ITEMS)))
        assert names["classes"] == list(learner.classes)
        assert (names["probs"].numpy().argmax(1) == probs.argmax(1)).mean() > 0.98
        assert not list((tmp_path / "spam-model").rglob("*.bin"))
        assert not (tmp_path / "spam-model" / "parbals.json").exists()  # it names items

    def test_a_folder_is_for_adapted_encoders(self, project, tmp_path):
        command = ["export", str(project), "--model", str(tmp_path / "folder")]
        result = CliRunner().invoke(parbals, command)
        assert result.exit_code != 0
        assert "give it the ending .npz" in str(result.output) + str(result.exception)


def run(*arguments):
    result = CliRunner().invoke(parbals, [str(a) for a in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def run_json(*arguments):
    return json.loads(run(*arguments, "--json"))


class TestBadInput:
    def test_too_few_labels_or_one_class(self, base, tmp_path):
        folder = made(tmp_path / "few", base, tmp_path, n_labels=10)
        with Store.open(folder) as store, pytest.raises(InputError, match="too few to adapt"):
            adapt_project(store, silent)

    def test_no_torch(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(MissingDependencyError, match="Adapting an encoder needs"):
            adapt.base_folder("words")

    def test_a_folder_that_is_none(self, project):
        with Store.open(project) as store, pytest.raises(InputError, match="no folder"):
            adapt_project(store, silent, encoder="hf:./nowhere")

    def test_a_folder_without_weights(self, project, tmp_path):
        (tmp_path / "empty").mkdir()
        with Store.open(project) as store, pytest.raises(InputError, match="holds no weights"):
            adapt_project(store, silent, encoder=f"hf:{tmp_path / 'empty'}")

    def test_an_encoder_that_cannot_learn(self, base):
        with pytest.raises(InputError, match="shapes cannot be adapted"):
            adapt.base_folder("shapes")

    def test_texts_for_a_network_that_sees(self, project, vision):
        with Store.open(project) as store, pytest.raises(InputError, match="reads images; the it"):
            adapt_project(store, silent, encoder=f"hf:{vision}")

    def test_items_that_no_encoder_reads(self, tmp_path):
        np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 3)))
        create_project(tmp_path / "p", tmp_path / "x.npy", Roles(), ["a", "b"], {})
        with (
            Store.open(tmp_path / "p") as store,
            pytest.raises(InputError, match="No encoder reads"),
        ):
            adapt_project(store, silent)


@pytest.fixture(scope="session")
def vision(tmp_path_factory):
    """A tiny vision transformer with random weights."""
    torch = pytest.importorskip("torch", reason="adapting needs torch")
    transformers = pytest.importorskip("transformers", reason="adapting needs transformers")
    folder = tmp_path_factory.mktemp("vision") / "tiny"
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.ViTConfig(image_size=16, patch_size=4, intermediate_size=32, **size)
    transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    how = {"size": {"height": 16, "width": 16}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(how))
    return folder


def test_images_teach_their_encoder_by_the_same_door(vision, tmp_path, monkeypatch):
    """Classes differ by which half is the brighter; random weights need larger steps."""
    from PIL import Image

    monkeypatch.setattr(adapt, "ALL_LAYERS", replace(adapt.ALL_LAYERS, learning_rate=5e-3))
    rng, kinds = np.random.default_rng(0), np.arange(90) % 2
    (tmp_path / "images").mkdir()
    for i, kind in enumerate(kinds):
        pixels = rng.integers(0, 120, (16, 16, 3), dtype=np.uint8)
        pixels[4:12, 8 * kind : 8 + 8 * kind] += 55
        Image.fromarray(pixels).save(tmp_path / "images" / f"{i:03}.png")
    options, project = Options(device="cpu"), tmp_path / "p"
    given = {"encoder": f"hf:{vision}", "encode_with": options}
    create_project(project, tmp_path / "images", Roles(), ["left", "right"], {}, **given)
    with Store.open(project) as store:
        answers = [Submission(p, store.classes[kinds[p]]) for p in range(60)]
        store.submit(answers, annotator="me")
        found = adapt_project(store, silent, options=options)
        assert found.used
        assert found.log_loss < found.frozen_log_loss
        assert "Encoder fine-tuned on 60 labels." in overview(store).features
        learner = learner_of(store)
        probs = learner.predict_proba(learner.pool.rows(np.arange(60, 90)))
    assert (probs.argmax(axis=1) == kinds[60:]).mean() > 0.8
    run("predict", project, tmp_path / "images", "--out", tmp_path / "out.csv")
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        predicted = [row["predicted"] for row in csv.DictReader(file)]
    assert (
        np.mean([name == ("left", "right")[k] for name, k in zip(predicted, kinds, strict=False)])
        > 0.8
    )


class TestSteps:
    """Fine-tuning in steps that can be stored."""

    @staticmethod
    def tuned(folder, step_done=lambda n_steps: None, checkpoint=None):
        kind, some = texts()
        encoder = adapt.load_base(folder, Options(device="cpu"), "text")
        adapt.fine_tune(encoder, some[:40], kind[:40], 3, step_done, checkpoint)
        return {name: part.clone() for name, part in encoder.network.state_dict().items()}

    def test_an_interrupted_training_ends_with_the_same_weights(self, base, tmp_path):
        class Cut(Exception):
            pass

        def until(n_steps):
            done = []

            def step_done(n):
                done.append(n)
                if sum(done) == n_steps:
                    raise Cut

            return step_done

        checkpoint = tmp_path / "steps"
        for n_steps in (7, 20):
            with pytest.raises(Cut):
                self.tuned(base, until(n_steps), checkpoint)
        steps = []
        resumed = self.tuned(base, steps.append, checkpoint)
        assert steps[0] == 20
        assert sum(steps) == adapt.LOW_RANK.n_steps(40)
        whole = self.tuned(base)
        assert all(resumed[name].equal(whole[name]) for name in whole)

    def test_speed_counts_steps_and_items(self, base):
        encoder = adapt.load_base(base, Options(device="cpu"), "text")
        speed = adapt.measure_speed(encoder, texts()[1][:20])
        assert speed.step > 0
        assert speed.encoding > 0
        assert adapt.Speed(2.0, 1.0).seconds(10, 32) == 22.0

    def test_the_quickest_way_is_kept_to(self, base, monkeypatch):
        torch = pytest.importorskip("torch", reason="adapting needs torch")
        n_threads = torch.get_num_threads()
        seconds = {(4, True): 3.0, (4, False): 2.0, (1, False): 1.0}
        tried = []
        monkeypatch.setattr(
            adapt, "_seconds_of", lambda function, way: (tried.append(way), seconds[way])[1]
        )
        try:
            torch.set_num_threads(4)
            encoder = adapt.load_base(base, Options(device="cpu"), "text")
            speed = adapt.measure_speed(encoder, texts()[1][:16])
        finally:
            torch.set_num_threads(n_threads)
        assert tried == [*seconds, (1, False)]  # the last one encodes, with what it found
        assert speed == adapt.Speed(1.0, 1.0)


def test_few_labels_train_low_rank_updates_of_the_linear_layers(base):
    torch = pytest.importorskip("torch", reason="adapting needs torch")
    kind, some = texts()
    encoder = adapt.load_base(base, Options(device="cpu"), "text")
    before = {name: part.clone() for name, part in encoder.network.state_dict().items()}
    adapt.fine_tune(encoder, some[:40], kind[:40], seed=3)
    after = encoder.network.state_dict()
    changes = {
        name: part - before[name] for name, part in after.items() if not part.equal(before[name])
    }
    assert len(changes) == 12  # six linear layers in each of two; no bias, norm or embedding
    for name, change in changes.items():
        assert torch.linalg.matrix_rank(change, rtol=1e-4) <= 8, name
    assert not any("forward" in vars(module) for module in encoder.network.modules())


@pytest.mark.parametrize(("schedule", "drops"), [(adapt.LOW_RANK, False), (adapt.ALL_LAYERS, True)])
def test_few_labels_are_trained_without_dropout(base, schedule, drops):
    """On a CPU, drawing what to drop takes a fifth of a step."""
    kind, some = texts()
    encoder = adapt.load_base(base, Options(device="cpu"), "text")
    modes = set()
    adapt.fine_tune(
        encoder,
        some[:40],
        kind[:40],
        seed=3,
        step_done=lambda n_steps: modes.add(encoder.network.training),
        schedule=schedule,
    )
    assert modes == {drops}
    assert not encoder.network.training


def test_more_labels_train_all_weights(base):
    encoder = adapt.load_base(base, Options(device="cpu"), "text")
    assert adapt.schedule_of(encoder, 125) is adapt.LOW_RANK
    assert adapt.schedule_of(encoder, 126) is adapt.ALL_LAYERS


def test_a_batch_in_parts_has_the_gradient_of_the_whole_batch(base, monkeypatch):
    torch = pytest.importorskip("torch", reason="adapting needs torch")
    some = [" ".join(text.split()[: 1 + i % 9]) for i, text in enumerate(texts()[1][:15])]
    gradients = []
    for n_parts in (1, 4):
        monkeypatch.setattr(adapt, "_N_PARTS", n_parts)
        encoder = adapt.load_base(base, Options(device="cpu"), "text")
        with torch.random.fork_rng(), torch.inference_mode(False), torch.enable_grad():
            torch.manual_seed(0)
            training = adapt._Training(encoder, some, np.arange(15) % 2, 0, adapt.ALL_LAYERS)
            encoder.network.eval()  # without dropout, which is random
            training._head.weight.data.normal_()
            training.step(np.arange(15))
        gradients.append([weight.grad for weight in training._trained if weight.grad is not None])
    assert max(gradient.abs().max() for gradient in gradients[0]) > 1e-3
    for whole, in_parts in zip(*gradients, strict=True):
        torch.testing.assert_close(in_parts, whole, rtol=1e-4, atol=1e-6)


def test_batch_norms_keep_what_they_know_of_a_million_images(tmp_path):
    """Sixteen images a step would move them, and what the network sees of every other image."""
    transformers = pytest.importorskip("transformers", reason="adapting needs transformers")
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1])
    transformers.ResNetModel(config).save_pretrained(tmp_path)
    how = {"size": {"height": 16, "width": 16}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(how))
    encoder = adapt.load_base(tmp_path, Options(device="cpu"), "image")
    before = {name: part.clone() for name, part in encoder.network.state_dict().items()}
    images = np.random.default_rng(0).integers(0, 255, (40, 16, 16, 3), dtype=np.uint8)
    adapt.fine_tune(encoder, list(images), np.arange(40) % 2, seed=0)
    after = encoder.network.state_dict()
    moved = {name for name, part in after.items() if not part.equal(before[name])}
    assert any(name.endswith("weight") for name in moved)
    assert not any("running" in name for name in moved)


def test_the_command_says_what_was_found(project):
    said = run("adapt", project, "--force", "--device", "cpu")
    assert "This takes less than a minute. Press Ctrl-C to stop; the same command resumes." in said
    assert "each held out once" in said
    with Store.open(project) as store:
        expected = learner_of(store).report().expected_error
    assert f"of the others {percent(expected.mean)} are expected to be wrong" in said
    assert "now uses the adapted encoder" in said
    assert features_of_store(project).shape[0] == N_ITEMS


def features_of_store(folder):
    with Store.open(folder) as store:
        return np.array(features_of(store))

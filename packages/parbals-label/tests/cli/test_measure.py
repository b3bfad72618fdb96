"""`parbals measure` and `estimate`."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from message_data import message, truth
from message_projects import fill
from parbals.learner.evaluation.certify import hypergeometric_limits, sample_delta
from parbals_label.project.choose import choose_batch
from parbals_label.project.engine import learner_of, refresh
from parbals_label.project.export_records import export_records
from parbals_label.project.features import features_of
from parbals_label.project.samples import latest_sample
from parbals_label.project.stored_predictions import newer_answers
from parbals_label.project.training import write_training_data
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


def answer(project, positions, wrong=(), **who):
    labels = {p: ("spam", "ham")[(truth(p) != "spam") ^ (p in wrong)] for p in positions}
    with Store.open(project) as store:
        store.submit([Submission(p, labels[p]) for p in labels], **({"annotator": "me"} | who))


def drawn(project):
    with Store.open(project, read_only=True) as store:
        record = store.batches()[-1]
    return record, [item.position for item in record.items]


class TestMeasure:
    def test_a_labelled_sample_certifies_the_error(self, run, project, tmp_path):
        output = run("measure", project, "-n", "20")
        record, positions = drawn(project)
        assert f"20 random items are in {project / 'batch-1.csv'}. Label all of them" in output
        assert (record.strategy, len(positions), record.settings["pile"]) == ("certify", 20, 54)
        assert not set(positions) & set(range(6)), "they have labels"
        assert "0 of the sample's 20 items are labelled" in run("measure", project)
        assert "To measure the error" not in run("status", project)
        fill(project / "batch-1.csv")
        run("tell", project, project / "batch-1.csv", "--no-report")
        found = json.loads(run("measure", project, "--json"))
        number = {"ham": 0, "spam": 1}
        decided = record.settings["decided"]
        n_wrong = sum(decided[str(p)] != number[truth(p)] for p in positions)
        assert (found["n_labelled"], found["certificate"]["n_wrong"]) == (20, n_wrong)
        error = found["certificate"]["error"]
        assert (error["low"], error["high"]) == hypergeometric_limits(
            n_wrong, 20, 54, sample_delta(1)
        )
        sentence = (
            "of 20 random items among the 54 that had no label at the draw the model trained on 6 "
            f"labels got {n_wrong}"
        )
        assert sentence in run("measure", project)

    def test_a_sample_that_nobody_has_answered_is_undone(self, run, project):
        run("measure", project, "-n", "20")
        assert "The sample of 20 items is undone" in run("measure", project, "--undo")
        assert "To measure the error" in run("status", project)
        refused = run("measure", project, "--undo", fails=True)
        assert "There is no sample to undo" in str(refused.exception)

    def test_the_measured_error_comes_first_and_is_dated(self, run, project):
        run("measure", project, "-n", "20")
        _, positions = drawn(project)
        answer(project, positions[:10])
        run("export", project, "--renew")
        status = run("status", project)
        assert "measured error" not in status
        assert "The model has learnt from 6 labels." in status
        assert "10 labels that measure the error are not among them." in status
        answer(project, positions[10:])
        lines = run("status", project).splitlines()
        (first,) = [n for n, line in enumerate(lines) if line.startswith("measured error: ")]
        assert lines[first].endswith("with 6 labels; 20 labels are newer")
        assert lines[first + 1].startswith("expected error")

    def test_later_labels_do_not_change_a_certificate(self, run, project):
        run("measure", project, "-n", "10", "--json")
        _, positions = drawn(project)
        answer(project, positions, wrong=positions[:3])
        with Store.open(project) as store:
            before = latest_sample(store)
            assert before.result is not None
            answer(project, set(range(30)) - set(positions))
            refresh(store)
            assert latest_sample(store) == before

    def test_labels_of_programs_do_not_count_and_skipped_items_are_not_known(self, run, project):
        run("measure", project, "-n", "8", "--page")
        record, positions = drawn(project)
        wanted = {p: record.settings["decided"][str(p)] for p in positions}
        with Store.open(project) as store:
            right = [Submission(p, store.classes[c]) for p, c in wanted.items()]
            store.submit(right, annotator="model", source="machine")
            assert latest_sample(store).n_labelled == 0
            store.submit(right[:7], annotator="me")
            assert latest_sample(store).n_labelled == 7
            store.pass_over(positions[7], "unsure", annotator="me")
            result = latest_sample(store).result
            assert (result.n_wrong, result.n_unknown) == (0, 1)
            limits = [hypergeometric_limits(k, 8, 54, sample_delta(1)) for k in (0, 1)]
            assert (result.error.low, result.error.high) == (limits[0][0], limits[1][1])

    def test_on_the_page_the_sample_is_not_replaced_by_better_items(self, run, project):
        with Store.open(project) as store:
            waiting = choose_batch(store, 10, queued=True)[0]
        run("measure", project, "-n", "40", "--page")
        _, positions = drawn(project)
        with Store.open(project) as store:
            assert not store.batch_positions(waiting), "they gave way, and may be drawn"
            assert store.unopened() == {}
            choose_batch(store, 5, queued=True, replaces=["certify"])
            assert set(positions) <= set(store.pending())

    def test_the_labels_train_no_model_until_the_sample_is_complete(self, run, project):
        run("measure", project, "-n", "20")
        _, positions = drawn(project)
        answer(project, positions[:19])
        with Store.open(project) as store:
            learner = learner_of(store)
            assert learner.labelled.tolist() == list(range(6))
            assert set(positions) <= set(learner.pending), "they are not chosen either"
            refresh(store)
            assert store.latest_report().n_labels == 25
            assert newer_answers(store) == 0
            counts = write_training_data(store, project / "training")
            pairs = store.settings.copies
            same_text = {p for pair in pairs if {*pair} & {*positions} for p in pair}
            assert counts["train"] == 60 - len(same_text.union(positions))
        answer(project, positions[19:])
        with Store.open(project) as store:
            assert set(positions) <= set(learner_of(store).labelled.tolist())

    def test_without_a_number_it_draws_sixty_or_what_is_left_or_shows_the_latest(
        self, run, project
    ):
        hint = f"label 54 random items, all that are left: parbals measure {project}"
        run("export", project, "--renew")
        assert hint in run("status", project)
        assert "54 random items are in" in run("measure", project)
        assert "0 of the sample's 54 items are labelled" in run("measure", project)
        refused = str(run("measure", project, "-n", "5", fails=True).exception)
        assert f"`parbals measure {project} --again`" in refused
        run("measure", project, "--again", "--n", "9")
        _, positions = drawn(project)
        assert len(positions) == 9, "the items of the earlier sample may be drawn again"
        run("certify", project, "--labels", "7", "--again")
        assert len(drawn(project)[1]) == 7, "an earlier spelling"

    def test_a_sample_is_kept_at_any_time_and_measures_every_later_model(self, run, project):
        assert "20 random items are kept as test items" in run(
            "measure", project, "--keep", "-n", "20"
        )
        with Store.open(project) as store:
            audit = store.settings.audit
            assert (len(audit), store.settings.audit_excluded) == (20, tuple(range(6)))
        answer(project, audit)
        with Store.open(project) as store:
            assert learner_of(store).state.training_labels.positions.tolist() == list(range(6))
            first = refresh(store).measured
            answer(project, [p for p in range(60) if p not in audit])
            later = refresh(store).measured
        assert (first.n, later.n, first.n_labels) == (19, 20, 25)
        assert later.n_labels == 50, "the labels have doubled: the next look"
        refused = str(run("measure", project, "--keep", fails=True).exception)
        assert "A sample is kept already: 20 items, 20 of them labelled" in refused

    def test_a_sample_larger_than_the_pool_is_refused(self, run, project):
        result = run("measure", project, "-n", "55", fails=True)
        assert "A sample of 55 items was requested, but only 54" in str(result.exception)
        with Store.open(project, read_only=True) as store:
            assert store.n_batches == 0


class TestWhoAndHow:
    """A statement says whose labels it rests on, and what was done after it was known (P11)."""

    @pytest.fixture
    def sample(self, run, project):
        run("measure", project, "-n", "30")
        record, positions = drawn(project)
        with Store.open(project, read_only=True) as store:
            decided = {p: store.classes[record.settings["decided"][str(p)]] for p in positions}
        return decided

    @pytest.mark.parametrize("name", ["import", "Import", "Label-Studio x", "machine:gpt", "gpt"])
    def test_predictions_fed_back_do_not_certify(self, run, project, sample, tmp_path, name):
        with Store.open(project) as store:
            store.submit([Submission(0, "ham")], annotator="machine:gpt", source="machine")
            ids = [item.id for item in store.items(list(sample))]
        path = tmp_path / "fed-back.csv"
        rows = [f"{i},{label}" for i, label in zip(ids, sample.values(), strict=True)]
        path.write_text("\n".join(["id,label", *rows]), "utf-8")
        run("tell", project, path, "--annotator", name, "--no-report")
        found = json.loads(run("measure", project, "--json"))
        assert (found["n_labelled"], found["certificate"]) == (0, None)
        assert found["sources"]["n_not_counted"] == 30
        assert "30 items are labelled only by imports, by programs," in run("measure", project)
        run("tell", project, path, "--annotator", "me", "--no-report")
        found = json.loads(run("measure", project, "--json"))
        assert found["certificate"]["n_wrong"] == 0
        assert found["sources"]["by"] == {"me": 30}
        assert "30 labels were read from files." in run("measure", project)

    def test_labels_from_a_file_count_only_of_people_of_the_project(
        self, run, project, sample, tmp_path
    ):
        with Store.open(project) as store:
            ids = [item.id for item in store.items(list(sample))]
        path = tmp_path / "labels.csv"
        rows = [f"{i},{label},carol" for i, label in zip(ids, sample.values(), strict=True)]
        path.write_text("\n".join(["id,label,annotator", *rows]), "utf-8")
        told = run("tell", project, path, "--no-report")
        assert "30 labels by carol of random items will not count" in told
        found = json.loads(run("measure", project, "--json"))
        assert (found["certificate"], found["sources"]["n_not_counted"]) == (None, 30)
        run("team", "invite", project, "carol")
        found = json.loads(run("measure", project, "--json"))
        assert (found["sources"]["by"], found["sources"]["n_from_files"]) == ({"carol": 30}, 30)
        assert "will not count" not in run("tell", project, path, "--no-report")

    def test_whoever_labels_on_the_page_is_of_the_project(self, run, project, sample):
        positions = list(sample)
        answer(project, positions[:29], annotator="ada")
        with Store.open(project) as store:
            assert latest_sample(store).n_labelled == 0
            page_answer = Submission(positions[29], "ham", request_id="from the page")
            store.submit([page_answer], annotator="Ada ")
            complete = latest_sample(store)
        assert complete.n_labelled == 30
        assert complete.sources.n_from_files == 29

    def test_it_names_the_people_and_the_dates(self, run, project, sample):
        positions = list(sample)
        run("team", "invite", project, "ada")
        answer(project, positions[:20])
        answer(project, positions[20:], annotator="ada")
        today = datetime.now(UTC).date().isoformat()
        said = run("measure", project)
        assert f"Sample 1 of 1. Labelled by me (20) and ada (10), {today}." in said
        assert "changed" not in said
        assert said.splitlines()[0] in run("status", project)

    def test_labels_changed_after_the_result_was_known_are_told(self, run, project, sample):
        opposite = {"ham": "spam", "spam": "ham"}
        wrong = [Submission(p, opposite[label]) for p, label in list(sample.items())[:24]]
        right = [Submission(p, label) for p, label in list(sample.items())[24:]]
        with Store.open(project) as store:
            store.submit(wrong[:1], annotator="me")
            store.submit([Submission(wrong[0].position, "ham")], annotator="me", revise=True)
            store.submit(wrong[:1], annotator="me", revise=True)
            store.submit([*wrong[1:], *right], annotator="me")
            before = latest_sample(store)
            assert (before.result.n_wrong, before.sources.n_changed) == (24, 0), "it was not known"
            revised = [Submission(p, label) for p, label in sample.items()]
            store.submit(revised, annotator="me", revise=True)
            after = latest_sample(store)
        assert (after.result.n_wrong, after.sources.n_changed) == (0, 24)
        assert after.first_result == before.result
        said = run("measure", project)
        assert "24 labels were changed after the sample was complete." in said
        assert "Before that, 24 of the 30 were wrong, and the limit was" in said

    def test_a_skipped_item_that_is_labelled_after_the_result_was_known_is_told(
        self, run, project, sample
    ):
        *answered, first_skipped, second_skipped = sample.items()
        with Store.open(project) as store:
            store.pass_over(first_skipped[0], "skip", annotator="me")
            store.pass_over(second_skipped[0], "unsure", annotator="me")
            store.submit([Submission(p, label) for p, label in answered], annotator="me")
            before = latest_sample(store)
            assert (before.result.n_unknown, before.sources.n_changed) == (2, 0)
            assert "2 items were skipped, by me (2)." in before.sentence
            store.submit([Submission(*first_skipped)], annotator="me")
            store.submit([Submission(*second_skipped)], annotator="me", source="decision")
            after = latest_sample(store)
        assert (after.result.n_unknown, after.sources.n_changed) == (0, 2)
        assert after.first_result == before.result
        assert "2 labels were changed after the sample was complete." in run("measure", project)

    def test_a_skip_that_became_a_label_before_the_sample_was_complete_is_no_change(
        self, project, sample
    ):
        (first, label), *others = sample.items()
        with Store.open(project) as store:
            store.pass_over(first, "skip", annotator="me")
            store.submit([Submission(first, label)], annotator="me")
            store.submit([Submission(p, label) for p, label in others], annotator="me")
            assert latest_sample(store).sources.n_changed == 0

    def test_a_label_undone_before_the_sample_was_complete_is_no_change(self, project, sample):
        first, *others = sample
        with Store.open(project) as store:
            store.submit([Submission(first, "spam")], annotator="me")
            store.undo_labels([first], annotator="me")
            store.submit([Submission(p, sample[p]) for p in others], annotator="me")
            assert latest_sample(store).result is None
            store.submit([Submission(first, "ham")], annotator="me")
            assert latest_sample(store).sources.n_changed == 0

    def test_labels_of_kept_items_that_were_changed_are_told_at_any_time(self, run, project):
        """Their result is known after each report, so a sample need not be complete."""
        run("measure", project, "--keep", "-n", "20")
        with Store.open(project) as store:
            audit = store.settings.audit
            opposite = {"ham": "spam", "spam": "ham"}
            answer_now = [Submission(p, opposite[truth(p)]) for p in audit[:8]]
            store.submit(answer_now, annotator="me")
            refresh(store)
            revised = [Submission(p, truth(p)) for p in audit[:6]]
            store.submit(revised, annotator="me", revise=True)
        assert "6 labels were changed after they were given." in run("status", project)

    def test_a_sample_drawn_again_has_less_of_the_risk_and_the_earlier_ones_are_told(
        self, run, project
    ):
        for number in (1, 2, 3):
            run("measure", project, "-n", "10", "--again")
            _, positions = drawn(project)
            if number == 2:
                continue
            answer(project, positions)
        found = json.loads(run("measure", project, "--json"))
        certificate = found["certificate"]
        assert (found["number"], found["n_samples"], len(found["earlier"])) == (3, 3, 2)
        limits = hypergeometric_limits(
            certificate["n_wrong"], 10, certificate["n_population"], sample_delta(3)
        )
        assert (certificate["error"]["low"], certificate["error"]["high"]) == limits
        said = run("measure", project)
        assert "Sample 3 of 3. " in said
        assert "Earlier: sample 1 (20" in said
        assert "was not completed, 0 of 10 labelled" in said


class TestEstimate:
    def test_shares_by_a_sample_and_all_predictions(self, run, project):
        assert "there are none yet" in str(
            run("estimate", project, "--share", "spam", fails=True).exception
        )
        run("measure", project, "-n", "30", "--json")
        _, positions = drawn(project)
        answer(project, positions)
        with Store.open(project) as store:
            refresh(store)  # the sample's own predictions stay
        found = json.loads(run("estimate", project, "--share", "spam", "--json"))
        (group,) = found["groups"]
        assert (group["n_items"], group["n"], group["difference"]) == (60, 30, None)
        assert group["share"]["low"] < 1 / 3 < group["share"]["high"]
        assert 0 < group["share"]["high"] - group["share"]["low"] < 0.35
        output = run("estimate", project, "--share", "spam")
        assert output.startswith("spam among all items (60 items, 30 random labels): ")

    def test_shares_of_the_values_of_a_column(self, run, project):
        run("measure", project, "-n", "54", "--json")
        answer(project, drawn(project)[1])
        groups = json.loads(
            run("estimate", project, "--share", "spam", "--by", "length", "--json")
        )["groups"]
        assert sum(group["n_items"] for group in groups) == 60
        sizes = [group["n_items"] for group in groups]
        assert sizes[0] == max(sizes)
        assert any(group["share"] is None for group in groups), "too few"
        result = run("estimate", project, "--share", "spam", "--by", "colour", fails=True)
        assert "no column 'colour'" in str(result.exception)
        assert "not one of the classes: ham, spam" in str(
            run("estimate", project, "--share", "eggs", fails=True).exception
        )


def test_an_audit_is_a_sample_too(run, messages):
    arguments = ("--text", "message", "--label", "label", "--classes", "ham,spam", "--audit", "20")
    run("init", "audited", messages, *arguments, "--strategy", "margin")
    with Store.open(messages.parent / "audited") as store:
        audit = list(store.settings.audit)
    answer(messages.parent / "audited", audit)
    with Store.open(messages.parent / "audited") as store:
        refresh(store)
    output = run("estimate", "audited", "--share", "spam")
    assert output.startswith("spam among all items (60 items, 20 random labels): ")


class TestCommandsTellNoPredictionOfASample:
    """No command shows what the model predicts for an item that is being measured (P13)."""

    def test_predict_leaves_out_the_items_of_a_sample(self, run, project):
        run("measure", project, "-n", "20")
        _, positions = drawn(project)
        said = run("predict", project, "messages.csv", "--out", "p.jsonl", "--json")
        rows = [json.loads(line) for line in Path("p.jsonl").read_text("utf-8").splitlines()]
        hidden = {n for n, row in enumerate(rows) if row["predicted"] is None}
        assert json.loads(said[said.index("{") :])["left_out"] == len(hidden)
        assert all(rows[n]["p_ham"] is rows[n]["p_spam"] is None for n in hidden)
        with Store.open(project, read_only=True) as store:
            features = np.asarray(features_of(store))
        equal = {
            n for n, row in enumerate(features) if np.isclose(features[positions], row).all(1).any()
        }
        assert set(positions) <= hidden == equal, "of texts that are equal to the model, too"
        answer(project, positions)
        said = run("predict", project, "messages.csv", "--out", "r.csv", "--json")
        assert json.loads(said)["left_out"] == 0

    def test_under_another_name_a_text_is_the_same_item(self, run, project):
        run("measure", project, "-n", "20")
        _, positions = drawn(project)
        texts = [f"x{p},{message(p)}" for p in positions[:3]]
        Path("other.csv").write_text("\n".join(["id,message", *texts, "new,hello there"]), "utf-8")
        run("predict", project, "other.csv", "--out", "p.jsonl")
        rows = [json.loads(line) for line in Path("p.jsonl").read_text("utf-8").splitlines()]
        assert [row["predicted"] is None for row in rows] == [True, True, True, False]

    def test_training_data_leave_out_duplicates_of_a_sample(self, run, project):
        run("measure", project, "-n", "10", "--page")
        _, positions = drawn(project)
        with Store.open(project) as store:
            duplicate = next(p for p in range(6, 60) if p not in positions)
            store.update_settings(copies=[(duplicate, positions[0])])
            assert write_training_data(store, project / "out")["train"] == 60 - 11

    def test_an_export_waits_for_all_labels_that_a_kept_item_needs(self, run, project):
        run("measure", project, "--keep", "-n", "12")
        run("export", project, "--renew", "--format", "jsonl")
        with Store.open(project) as store:
            store.update_settings(answers_wanted=2)
            first, second = store.settings.audit[:2]
            store.submit([Submission(first, "ham"), Submission(second, "ham")], annotator="me")
            store.invite("ada", "annotator")
            store.submit([Submission(second, "ham")], annotator="ada")
            predicted = [record["predicted"] for record in export_records(store)]
        assert predicted[first] is None, "ada has not labelled it yet"
        assert predicted[second] is not None

"""`parbals certify` and `estimate`."""

import json

from message_data import truth
from message_projects import fill
from parbals.learner.evaluation.certify import hypergeometric_limits
from parbals_label.project.certified import latest_sample
from parbals_label.project.engine import choose_batch, refresh
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


def answer(project, positions, wrong=(), **who):
    labels = {p: ("spam", "ham")[(truth(p) != "spam") ^ (p in wrong)] for p in positions}
    with Store.open(project) as store:
        store.submit([Submission(p, labels[p]) for p in labels], **({"annotator": "kim"} | who))


def drawn(project):
    with Store.open(project, read_only=True) as store:
        record = store.batches()[-1]
    return record, [item.position for item in record.items]


class TestCertify:
    def test_a_labelled_sample_certifies_the_error(self, run, project, tmp_path):
        result = run("certify", project, fails=True)
        assert "`parbals certify spam --labels 100`" in str(result.exception).replace(
            str(project), "spam"
        )
        output = run("certify", project, "--labels", "20")
        record, positions = drawn(project)
        assert f"20 random items are in {project / 'batch-1.csv'}. Label all of them" in output
        assert (record.strategy, len(positions), record.settings["pile"]) == ("certify", 20, 54)
        assert not set(positions) & set(range(6)), "they have labels"
        assert "0 of the sample's 20 items are labelled" in run("certify", project)
        fill(project / "batch-1.csv")
        run("tell", project, project / "batch-1.csv", "--no-report")
        found = json.loads(run("certify", project, "--json"))
        number = {"ham": 0, "spam": 1}
        decided = record.settings["decided"]
        n_wrong = sum(decided[str(p)] != number[truth(p)] for p in positions)
        assert (found["n_labelled"], found["certificate"]["n_wrong"]) == (20, n_wrong)
        error = found["certificate"]["error"]
        assert (error["low"], error["high"]) == hypergeometric_limits(n_wrong, 20, 54)
        sentence = (
            "of 20 random items among the 54 without a label the model trained on 6 labels "
            f"got {n_wrong}"
        )
        assert sentence in run("certify", project)

    def test_later_labels_do_not_change_a_certificate(self, run, project):
        run("certify", project, "--labels", "10", "--json")
        _, positions = drawn(project)
        answer(project, positions, wrong=positions[:3])
        with Store.open(project) as store:
            before = latest_sample(store)
            assert before.result is not None
            answer(project, set(range(30)) - set(positions))
            refresh(store)
            assert latest_sample(store) == before

    def test_labels_of_programs_do_not_count_and_skipped_items_are_errors(self, run, project):
        run("certify", project, "--labels", "8", "--page")
        record, positions = drawn(project)
        wanted = {p: record.settings["decided"][str(p)] for p in positions}
        with Store.open(project) as store:
            right = [Submission(p, store.classes[c]) for p, c in wanted.items()]
            store.submit(right, annotator="model", source="machine")
            assert latest_sample(store).n_labelled == 0
            store.submit(right[:7], annotator="kim")
            assert latest_sample(store).n_labelled == 7
            store.pass_over(positions[7], "unsure", annotator="kim")
            assert latest_sample(store).result.n_wrong == 1

    def test_on_the_page_the_sample_is_not_replaced_by_better_items(self, run, project):
        with Store.open(project) as store:
            waiting = choose_batch(store, 10, queued=True)[0]
        run("certify", project, "--labels", "40", "--page")
        _, positions = drawn(project)
        with Store.open(project) as store:
            assert not store.batch_positions(waiting), "they gave way, and may be drawn"
            assert store.unopened() == {}
            choose_batch(store, 5, queued=True, replaces=["certify"])
            assert set(positions) <= set(store.pending())

    def test_a_sample_larger_than_the_pool_is_refused(self, run, project):
        result = run("certify", project, "--labels", "55", fails=True)
        assert "A sample of 55 items was requested, but only 54" in str(result.exception)
        with Store.open(project, read_only=True) as store:
            assert store.n_batches == 0


class TestEstimate:
    def test_shares_by_a_sample_and_all_predictions(self, run, project):
        assert "there are none yet" in str(
            run("estimate", project, "--share", "spam", fails=True).exception
        )
        run("certify", project, "--labels", "30", "--json")
        _, positions = drawn(project)
        answer(project, positions)
        with Store.open(project) as store:
            refresh(store)  # the sample's own predictions stay
        found = json.loads(run("estimate", project, "--share", "spam", "--json"))
        (group,) = found["groups"]
        assert (group["n_items"], group["n"], group["difference"]) == (60, 30, None)
        assert group["share"]["low"] < 1 / 3 < group["share"]["high"]
        assert 0 < group["share"]["high"] - group["share"]["low"] < 0.25
        output = run("estimate", project, "--share", "spam")
        assert output.startswith("spam among all items (60 items, 30 random labels): ")

    def test_shares_of_the_values_of_a_column(self, run, project):
        run("certify", project, "--labels", "54", "--json")
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

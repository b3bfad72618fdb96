"""`parbals label --llm` against a real server: `transformers serve` with tiny models made here.

From a CSV and an endpoint to labels with a measured error and a bill, by commands alone.
"""

import json

import pytest
from click.testing import CliRunner
from message_data import message, truth, write_messages
from parbals.cli.main import parbals
from parbals_label.machines.llm import asking
from parbals_label.store.records import Submission
from parbals_label.store.replies import usage_of
from parbals_label.store.store import Store

pytest.importorskip("torch")
pytest.importorskip("openai", reason="transformers serve needs transformers[serving]")

from tiny_chat_model import save_chat_model, transformers_serve

N_TRAINED = 30


@pytest.fixture(scope="module", params=["trained", "random"])
def server(request, tmp_path_factory):
    """The address of a server, and whether its model was trained."""
    is_trained = request.param == "trained"
    folder = tmp_path_factory.mktemp(request.param) / "model"
    texts = [message(i) for i in range(N_TRAINED)]
    labels = [truth(i) for i in range(N_TRAINED)]
    save_chat_model(folder, texts, labels, n_steps=60 if is_trained else 0)
    with transformers_serve(folder) as url:
        yield url, str(folder), is_trained


def run(*arguments):
    result = CliRunner().invoke(parbals, [str(argument) for argument in arguments])
    return result, result.output + result.stderr


def test_from_a_csv_and_an_endpoint_to_a_measured_error_and_a_bill(server, tmp_path, monkeypatch):
    monkeypatch.setitem(asking._OPTIONAL_FIELDS, "max_tokens", 12)  # random words have no end
    url, model, is_trained = server
    write_messages(tmp_path / "messages.csv", 60)
    project = tmp_path / "spam"
    result, output = run(
        "init", project, tmp_path / "messages.csv", "--text", "message", "--classes", "ham,spam"
    )
    assert result.exit_code == 0, output
    arguments = ["label", project, "--llm", url, "--model", model, "--name", "tiny"]
    priced = [*arguments, "--price", "0.15,0.60"]
    n_items = json.loads(run(*priced, "--dry-run", "--json")[0].stdout)["items"]
    assert 40 < n_items <= 60  # a text that repeats is labelled once
    result, output = run(*priced, "--max-cost", "5")
    (usage,) = usage_of(project)
    assert usage.n_estimated == 0, "the server counts tokens"
    assert usage.cost == pytest.approx((0.15 * usage.tokens_in + 0.60 * usage.tokens_out) / 1e6)
    if not is_trained:
        # Random words: whatever they are, nothing but classes is stored, and all is paid for.
        with Store.open(project, read_only=True) as store:
            labels = [by["machine:tiny"] for by in store.current_labels().values()]
        assert f"{len(labels)} labels stored as machine:tiny" in output
        assert set(labels) <= {"ham", "spam"}
        assert usage.n_requests >= 20
        return
    assert f"{n_items} labels stored as machine:tiny" in output
    assert f"So far {usage.sentence}." in output
    assert usage.n_requests == n_items
    result, output = run("label", project, "--check", "20", "--json")
    drawn = set(json.loads(result.stdout)["items"])
    with Store.open(project) as store:
        labels = {p: by["machine:tiny"] for p, by in store.current_labels().items()}
        rows = [
            Submission(item.position, truth(item.position))
            for item in store.items(range(60))
            if item.id in drawn
        ]
        store.submit(rows, annotator="kim")
    n_wrong = sum(labels[row.position] != row.label for row in rows)
    result, output = run("label", project, "--report")
    assert f"wrong in {n_wrong} of 20 answers that people checked" in output
    assert usage.sentence in run("status", project)[1]

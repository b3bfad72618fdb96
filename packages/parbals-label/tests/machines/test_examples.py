"""The example annotators as users run them; the LLM's is asked through a local server that speaks
the chat protocol."""

import json
import os
import sys

import pytest
from local_server import respond, serving
from repository import ROOT

EXAMPLES = ROOT / "examples" / "annotators"


def test_the_keyword_rule_says_what_it_found(label):
    words = [sys.executable, str(EXAMPLES / "keyword_rule.py"), "prize", "claim"]
    found = label(words)
    assert found.result.stored == 12
    assert {name for name, given in found.labels.items() if given == "spam"} == {
        "000",
        "003",
        "006",
        "009",
    }
    comments = {answer.comment for answer in found.answers if answer.label == "spam"}
    assert all("contains " in comment for comment in comments)


@pytest.fixture
def chat(label, monkeypatch):
    """Label with the example, talking to a server whose model writes what ``model`` returns for a
    message."""
    monkeypatch.setenv("CHAT_KEY", "sk-local")

    def run(model, *options, **rules):
        def answer(handler, request, number):
            (body,) = request.lines
            content = json.loads(body["messages"][1]["content"])
            written = model(content["message"], number)
            if isinstance(written, tuple):
                return respond(handler, written[0], **written[1])
            message = {"role": "assistant", "content": written}
            whole = {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}
            respond(handler, body=json.dumps(whole).encode(), content_type="application/json")

        with serving(answer) as server:
            script = [
                sys.executable,
                str(EXAMPLES / "chat_endpoint.py"),
                "--url",
                f"{server.url}/v1",
                "--model",
                "m",
            ]
            words = [*script, "--task", "Is it spam?", "--key-env", "CHAT_KEY", *options]
            found = label(words, **rules)
            found.requests = server.seen
        return found

    return run


def verdict(message, number):
    spam = "prize" in message or "claim" in message
    return json.dumps(
        {"label": "spam" if spam else "ham", "confidence": 0.8, "reason": "the wording"}
    )


def test_a_chat_model_labels_everything(chat):
    found = chat(verdict)
    assert (found.result.stored, found.result.ended, found.said) == (12, "done", [])
    assert sorted(found.labels.values()).count("spam") == 4
    assert found.answers[0].comment == '{"confidence":0.8,"comment":"the wording"}'
    request = found.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["Authorization"] == "Bearer sk-local"
    (body,) = request.lines
    assert (body["model"], body["temperature"]) == ("m", 0)
    assert "Is it spam?" in body["messages"][0]["content"]
    assert '["ham", "spam"]' in body["messages"][0]["content"]


def test_what_models_write_around_the_label_is_understood(chat):
    found = chat(
        lambda message, number: 'Sure!\n```json\n{"label": " SPAM", "confidence": "high"}\n```',
        budget=2,
    )
    assert list(found.labels.values()) == ["spam", "spam"]
    assert {answer.comment for answer in found.answers} == {None}


def test_a_model_that_cannot_tell_abstains(chat):
    found = chat(lambda message, number: '{"label": null, "reason": "no text"}')
    assert (found.result.abstained, found.result.stored, found.result.ended) == (12, 0, "done")


@pytest.mark.parametrize(
    "written", ["I think it is spam", '{"label": "Werbung"}', "", '{"verdict": 1}', None]
)
def test_what_cannot_be_understood_is_never_stored(chat, written):
    found = chat(lambda message, number: written, retries=0, batch_size=2)
    assert (found.result.ended, found.answers, found.out) == ("failed", [], [])
    assert "exit code 1, saying: item" in found.result.fault


def test_a_busy_endpoint_is_waited_for(chat):
    def model(message, number):
        return (429, {"retry_after": 0}) if number == 1 else verdict(message, number)

    found = chat(model, budget=2, retries=0)
    assert (found.result.stored, len(found.requests)) == (2, 3)


def test_a_wrong_key_is_said_clearly_and_asked_once(chat):
    found = chat(lambda message, number: (401, {}), retries=0, batch_size=4)
    assert (
        "saying: the endpoint answered 401; check --url, --model and the key" in found.result.fault
    )
    assert len(found.requests) == 2  # one for each of the two batches after which the run ends


def test_the_key_is_not_carried_to_another_host(chat):
    with serving(lambda handler, request, number: respond(handler)) as other:
        found = chat(
            lambda message, number: (307, {"location": other.url}), retries=0, batch_size=2
        )
        assert other.seen == []
    assert "the endpoint answered 307" in found.result.fault
    assert os.environ["CHAT_KEY"] not in str(found.said)

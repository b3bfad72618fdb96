"""Endpoints that repeat the key, send what no model sends, or cost more than they may."""

import base64
import json
import shutil
from contextlib import suppress
from itertools import cycle

import pytest
from chat_server import KEY, chat_server, completion, rule
from click.testing import CliRunner
from dose import small_and_full
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llm_runs import PRICE, N, assert_no_key, label_by, labels_of, parts_of_key
from message_projects import copy_project
from parbals_label.answer_form import AnswerForm
from parbals_label.cli.label import label as command
from parbals_label.machines.llm.asking import MAX_REPLY_TOKENS
from parbals_label.machines.llm.endpoint import Completion, Endpoint, EndpointError
from parbals_label.machines.llm.prompt import Unusable, label_confidence, read_label
from parbals_label.machines.loop import ENDINGS
from parbals_label.project.backup import write_backup
from parbals_label.store.replies import usage_of
from raw_server import raw_server, response

FORM = AnswerForm(classes=("ham", "spam"))
BEARER = f"Bearer {KEY}".encode()
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in KEY)


def chat(content, **fields):
    return json.dumps({**completion(content), **fields}).encode()


def error(text, status=b"HTTP/1.1 400 Bad Request"):
    return response(text, status=status)


PLACES = {
    "an error, where it is cut": error(b"x" * 258 + BEARER),
    "an error in JSON": error(json.dumps({"error": {"message": f"not {KEY}"}}).encode()),
    "an error, escaped": error(b"not " + ESCAPED.encode()),
    "an error, in base64": error(b"not " + base64.b64encode(BEARER)),
    "an error, folded": error(b"".join(b"%c " % byte for byte in BEARER)),
    "another status": error(BEARER, b"HTTP/1.1 503 Busy"),
    "a response that is none": response(b'{"headers": {"Authorization": "%s"}}' % BEARER),
    "a response that is no JSON": response(b"Authorization: " + BEARER),
    "a reply": response(chat(f"The key is {KEY}")),
    "a reply with a label": response(chat(json.dumps({"label": KEY}))),
    "a reply, cut": response(chat(KEY[:20])),
    "a reply, escaped": response(chat(f"The key is {ESCAPED}")),
    "a reply in parts": response(chat([{"text": KEY[:9]}, {"text": KEY[9:]}])),
    "a refusal": response(json.dumps(completion(None, refusal=f"I am {KEY}")).encode()),
    "a status line": BEARER + b"\r\n\r\n",
    "a status": b"HTTP/1.1 2" + BEARER + b"\r\n\r\n",
    "headers": response(b"no", headers=[(b"Authorization", BEARER)] * 3, length=99),
    "too many headers": response(b"no", headers=[(BEARER[7:], BEARER)] * 200),
    "a redirect": response(b"", status=b"HTTP/1.1 302 " + BEARER, headers=[(b"Location", BEARER)]),
    "a length": response(b"x", headers=[(b"Content-Length", BEARER)]),
    "a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + BEARER + b"\r\n",
    "a wait": response(b"no", status=b"HTTP/1.1 429 No", headers=[(b"Retry-After", BEARER)]),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_endpoint_that_repeats_the_key_gets_it_nowhere(place, project, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with raw_server(lambda head: [PLACES[place]]) as server:
        arguments = [project, "--llm", server.url, "--model", "m", "--retries", "0", "--no-report"]
        result = CliRunner().invoke(command, [*map(str, arguments)])
    assert result.exit_code in (0, 1), result.exception
    assert server.n_seen > 0
    write_backup(project, tmp_path / "backup.zip")
    shutil.unpack_archive(tmp_path / "backup.zip", tmp_path / "backup")
    assert_no_key(result.output, result.stderr, str(result.exception), folder=tmp_path)


def with_logprob(value):
    def misbehave(request, number):
        return completion(json.dumps({"label": rule(request)}), logprob=value)

    return misbehave


def with_tokens(value):
    def misbehave(request, number):
        return completion(json.dumps({"label": rule(request)}), tokens=(200, value))

    return misbehave


STRANGE = {
    "a log-probability of 1000": with_logprob(1000),
    "one that is not a number": with_logprob(float("nan")),
    "one that is no float": with_logprob(10**400),
    "an endless number of tokens": with_tokens(10**100),
    "2^63 tokens": with_tokens(2**63),
    "half a character": lambda request, number: completion('{"label": "ham"} \ud83d'),
    "a list of nothing": lambda request, number: {"choices": [None], "usage": {"x": 1}},
    "no choice, but a bill": lambda request, number: {
        "usage": {"prompt_tokens": 200, "completion_tokens": 8}
    },
    "deep JSON": lambda request, number: completion('{"label":' + "[" * 50_000),
    "a deep label": lambda request, number: completion('{"label":' + "[" * 900 + "]" * 900 + "}"),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_strange_reply_is_paid_once_and_ends_in_no_trace(ask, project, kind):
    with chat_server(STRANGE[kind]) as server:
        result, _ = ask(server.url, retries=0, budget=2)
        (usage,) = usage_of(project)
        assert usage.n_requests == len(server.seen), "every reply is on the record"
        assert usage.cost > 0
        assert result.ended in ENDINGS
        if result.stored:
            assert {"ham", "spam"} >= set(labels_of(project).values())


@pytest.mark.parametrize("value", [1000, float("nan"), 10**400], ids=["large", "nan", "no float"])
def test_a_log_probability_that_is_none_is_no_confidence(value):
    body = json.dumps(completion('{"label": "ham"}', logprob=value)).encode()
    with raw_server(lambda head: [response(body)]) as server:
        reply = Endpoint(server.url, KEY).complete({})
    assert label_confidence(reply, read_label(reply, FORM)) is None


def test_a_reply_that_is_paid_and_not_understood_is_not_lost_by_a_crash(ask, project, monkeypatch):
    """The record comes before the interpretation, whatever that does."""

    def broken(completion, form):
        raise RuntimeError("a fault of this program")

    with chat_server() as server:
        with monkeypatch.context() as patch:
            patch.setattr("parbals_label.machines.llm.asking.read_label", broken)
            with pytest.raises(RuntimeError, match="a fault"):
                ask(server.url)
        n_paid = len(server.seen)
        assert usage_of(project)[0].n_requests == n_paid == 1
        result, _ = ask(server.url)
        assert len(server.seen) == result.stored, "the paid reply was not asked for again"


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    tokens=st.tuples(st.integers(0, 10**7), st.integers(0, 10**5)),
    budget=st.floats(0.02, 1.0),
)
def test_a_budget_is_overdrawn_by_one_reply_at_most(llm_project, tmp_path_factory, tokens, budget):
    folder = copy_project(llm_project, tmp_path_factory.mktemp("budget") / "spam")
    cost = PRICE.cost(*tokens)

    def misbehave(request, number):
        return completion(json.dumps({"label": rule(request)}), tokens=tokens)

    with chat_server(misbehave, delay=0.01) as server:
        result, _ = label_by(server.url, folder, batch_size=N, max_cost=budget)
    assert len(server.seen) * cost <= budget + cost
    usage = usage_of(folder)
    assert sum(use.cost for use in usage) == pytest.approx(len(server.seen) * cost)
    if tokens[1] > MAX_REPLY_TOKENS and server.seen:
        assert (result.ended, len(server.seen), result.stored) == ("failed", 1, 1)
        assert "would not stay within a budget of money" in result.fault


def test_without_a_budget_of_money_long_replies_do_not_stop_a_run(ask):
    with chat_server(with_tokens(5 * MAX_REPLY_TOKENS)) as server:
        result, _ = ask(server.url)
    assert (result.ended, result.failed) == ("done", 0)


def test_a_reply_that_never_comes_counts_against_the_budget(ask, project):
    """Its request was received, so it may have been paid for."""
    with raw_server(lambda head: [1.0]) as server:
        result, _ = ask(server.url, timeout=0.1, retries=2, max_cost=1.0)
    (usage,) = usage_of(project)
    assert result.ended == "failed"
    assert usage.n_requests == usage.n_estimated == server.n_seen
    assert usage.cost >= server.n_seen * PRICE.cost(100, MAX_REPLY_TOKENS)


@pytest.mark.parametrize("text", ["{" * 2_500_000, '{"a":' * 500_000, '{"a": "' * 300_000])
def test_a_long_reply_is_read_in_a_bounded_number_of_steps(text, monkeypatch):
    n_read = []

    class Counting(json.JSONDecoder):
        def raw_decode(self, text, start=0):
            n_read.append(len(text) - start)
            return super().raw_decode(text, start)

    monkeypatch.setattr("parbals_label.machines.llm.prompt.json.JSONDecoder", Counting)
    with raw_server(lambda head: [response(chat(text))]) as server:
        reply = Endpoint(server.url, KEY).complete({})
    with pytest.raises(Unusable):
        read_label(reply, FORM)
    assert sum(n_read) <= 100 * 100_000


SECRETS = st.sampled_from(
    [KEY, KEY[:-3], KEY[5:20], ESCAPED, BEARER.decode(), base64.b64encode(BEARER).decode()]
)
TEXTS = st.one_of(
    st.text(max_size=30),
    st.tuples(st.text(max_size=10), SECRETS, st.text(max_size=10)).map("".join),
    st.sampled_from(["ham", '{"label": "spam"}', '{"label": null}', '{"label": NaN}', "stop"]),
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(2**60, 2**70),
        st.floats(),
        TEXTS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.sampled_from(["text", "token", "logprob", "content", "label"]), TEXTS),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)


@st.composite
def records(draw):
    """What a model sends, with any value in any place."""
    record = completion(draw(TEXTS), logprob=None)
    choice = record["choices"][0]
    for holder, name in [
        (record, "choices"),
        (record, "usage"),
        (record["usage"], "prompt_tokens"),
        (record["usage"], "completion_tokens"),
        (choice, "message"),
        (choice, "finish_reason"),
        (choice, "logprobs"),
        (choice["message"], "content"),
        (choice["message"], "refusal"),
    ]:
        if draw(st.integers(0, 5)) == 0:
            holder[name] = draw(VALUES)
    return record


HEADER_NAMES = ["Retry-After", "Date", "Content-Type", "Content-Length", "Transfer-Encoding"]
HEADERS = st.lists(
    st.tuples(
        st.sampled_from([name.encode() for name in [*HEADER_NAMES, "Location", "X-Key"]]),
        st.one_of(
            st.sampled_from(
                [BEARER, b"chunked", b"7", b"-1", b"Thu, 01 Jan 0001 00:00:00", b"9" * 99]
            ),
            st.binary(max_size=20),
        ),
    ),
    max_size=4,
)
STATUSES = st.one_of(
    st.just(b"HTTP/1.1 200 OK"),
    st.integers(100, 999).map(lambda code: b"HTTP/1.1 %d " % code + BEARER),
    st.sampled_from([b"HTTP/1.1 429 No", b"HTTP/1.1 500 No", b"HTTP/1.1 400 No", b"", BEARER]),
)


@st.composite
def responses(draw):
    """The bytes of any response, in pieces and with pauses."""
    record = draw(st.one_of(records(), records(), VALUES))
    body = json.dumps(record).encode()
    body = draw(st.sampled_from([body, body, body[: len(body) // 2], BEARER * 3, b""]))
    length = draw(st.sampled_from([None, None, None, 0, 10**6]))
    data = response(body, status=draw(STATUSES), headers=draw(HEADERS), length=length)
    middle = draw(st.integers(0, len(data)))
    pause = draw(st.sampled_from([0.0, 0.0, 0.0, 0.01, 0.4]))
    return [data[:middle], pause, data[middle:]]


@pytest.mark.parametrize("n_examples", small_and_full(100, 3_000))
def test_any_response_is_a_reply_or_an_error_without_the_key(n_examples):
    @settings(max_examples=n_examples, deadline=None, database=None)
    @given(responses())
    def check(pieces):
        with raw_server(lambda head: pieces) as server:
            try:
                outcome = Endpoint(server.url, KEY, timeout=0.3).complete({})
            except EndpointError as error:
                outcome = error
        if isinstance(outcome, Completion):
            assert_harmless(outcome)
        else:
            assert parts_of_key(str(outcome).encode()) == []
            assert outcome.wait is None or outcome.wait >= 0

    check()


def assert_harmless(reply):
    """Whatever a reply says, its texts can be shown and stored, and reading it ends well."""
    for text in (reply.content, reply.refusal or "", reply.fault or ""):
        assert parts_of_key(text) == []
        text.encode()
    for n_tokens in (reply.tokens_in, reply.tokens_out):
        assert n_tokens is None or 0 <= n_tokens <= 1 << 40
    for form in (FORM, AnswerForm("many-labels", ("ham", "spam")), AnswerForm("regression")):
        with suppress(Unusable):
            label = read_label(reply, form)
            confidence = label_confidence(reply, label)
            assert confidence is None or 0 <= confidence <= 1


@pytest.mark.parametrize("n_runs", small_and_full(8, 200))
def test_a_run_survives_any_endpoint(llm_project, tmp_path_factory, n_runs):
    """No trace, no label but a class, no part of the key in a file, and every reply on the bill."""

    @settings(max_examples=n_runs, deadline=None, database=None)
    @given(st.lists(responses(), min_size=1, max_size=8))
    def check(answers):
        home = tmp_path_factory.mktemp("any")
        folder = copy_project(llm_project, home / "spam")
        order = cycle(answers)
        options = {"timeout": 0.3, "retries": 1, "max_cost": 1.0}
        with raw_server(lambda head: next(order)) as server:
            result, said = label_by(server.url, folder, **options)
        assert result.ended in ENDINGS
        assert {"ham", "spam"} >= set(labels_of(folder).values())
        assert_no_key(str(result.fault), *said, folder=home)
        for usage in usage_of(folder):
            assert usage.n_requests <= server.n_seen
            assert 0 <= usage.cost < 10**15

    check()

"""Ask an LLM about a batch: several requests at once, retried, cached, counted and paid.

Threads do nothing but single requests. Everything else happens in the thread that calls
``receive``: building prompts, retries, the rate, the largest cost, and recording what is paid:
before the request is sent, and again before anything is read from its reply.
"""

import heapq
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from parbals_label.answer_form import AnswerForm
from parbals_label.machines.llm.endpoint import Completion, Endpoint, EndpointError
from parbals_label.machines.llm.prompt import (
    Prompt,
    Unusable,
    estimated_tokens,
    label_confidence,
    read_label,
    text_tokens,
)
from parbals_label.machines.programs import Ending
from parbals_label.machines.rate import RateLimit
from parbals_label.store.records import Item
from parbals_label.store.replies import PaidReply, Replies

__all__ = ["MAX_REPLY_TOKENS", "ChatConversation", "ChatModel", "Price"]

MAX_REPLY_TOKENS = 1_000
"""Tokens of a reply at most; room for models that reason first."""
_N_CONNECTIONS = 8
"""Requests at the same time."""
_RECOVERY = 0.1
"""Further connections for every reply, after a rate limit has halved them."""
_MAX_BACKOFF_SECONDS = 60.0
_MAX_WAIT_SECONDS = 120.0
"""Longest wait before a retry; a server that asks for more is not asked again."""
_GRACE_SECONDS = 10.0
"""Time for requests that are on their way when the run is stopped: they are paid for."""
_OPTIONAL_FIELDS: dict[str, Any] = {
    "logprobs": True,
    "temperature": 0,
    "max_tokens": MAX_REPLY_TOKENS,
    "response_format": "json_schema",
}
"""Fields that some servers refuse; in this order they are left out."""
_RENAMED = {"max_tokens": "max_completion_tokens"}
"""Fields that some models want under another name."""
_TOO_MANY = 429
_REFUSED = (400, 422)
"""Statuses of a server that does not take a field."""

MakePrompts = Callable[[Sequence[Item]], dict[int, Callable[[], Prompt]]]
"""From items: position → a function that makes the prompt, or raises :class:`Unusable`."""


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a million tokens of prompts and of replies, in any currency.

    >>> Price(0.15, 0.60).cost(1_000_000, 100_000)
    0.21
    """

    tokens_in: float
    tokens_out: float

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """The price of so many tokens."""
        return (tokens_in * self.tokens_in + tokens_out * self.tokens_out) / 1e6


@dataclass
class ChatModel:
    """A model at an endpoint, which labels under a name.

    Attributes:
        prompts: makes the prompts of a batch.
        replies: the cache, and the record of what was paid.
        price: price of tokens; None if unknown.
        max_cost: what the annotator may cost in total, earlier runs included.
        rate: requests in any minute at most, retries included.
        retries: further attempts after a failure that may pass.
        first_wait: seconds before the first retry; doubled for each further one.
    """

    endpoint: Endpoint
    model: str
    annotator: str
    prompts: MakePrompts
    replies: Replies
    price: Price | None = None
    max_cost: float | None = None
    rate: int | None = None
    retries: int = 3
    first_wait: float = 1.0

    def __post_init__(self) -> None:
        self.rate_limit = RateLimit(self.rate)
        self.spent = self.replies.cost_of(self.annotator)
        self.fields = dict(_OPTIONAL_FIELDS)
        self.has_replied = False
        self.paused_until = 0.0
        self.n_connections = float(_N_CONNECTIONS)
        self._largest_cost = 0.0

    @property
    def name(self) -> str:
        """The name of the model, for the log."""
        return self.model

    def ask(self, items: Sequence[Item], form: AnswerForm) -> "ChatConversation":
        """Start to ask about these items."""
        return ChatConversation(self, items, form)

    def body(self, prompt: Prompt, fields: dict[str, Any]) -> dict[str, Any]:
        """The request for a prompt with these optional fields."""
        fields = dict(fields)
        if "response_format" in fields:
            schema = {"name": "answer", "strict": True, "schema": prompt.schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        return {"model": self.model, "messages": list(prompt.messages), **fields}

    def most(self, prompt: Prompt) -> PaidReply:
        """What a request costs at most, as far as that is known before it is sent."""
        tokens_in = max(prompt.n_bytes, estimated_tokens(prompt))
        return self._paid(None, tokens_in, MAX_REPLY_TOKENS, is_counted=False)

    def bound(self, prompt: Prompt) -> float:
        """The money to set aside for a request: the most, or what the dearest reply has cost."""
        return max(self.most(prompt).cost or 0.0, self._largest_cost)

    def record(self, number: int, prompt: Prompt, completion: Completion) -> PaidReply:
        """Record the tokens and the money of a reply, whatever it says."""
        tokens_in = completion.tokens_in
        tokens_out = completion.tokens_out
        is_counted = tokens_in is not None and tokens_out is not None
        if tokens_in is None:
            tokens_in = estimated_tokens(prompt)
        is_reply = completion.fault is None
        if tokens_out is None:
            tokens_out = text_tokens(completion.content) if is_reply else MAX_REPLY_TOKENS
        content = completion.content if is_reply and not completion.is_withheld else None
        paid = self._paid(content, tokens_in, tokens_out, is_counted=is_counted)
        self.replies.record(number, paid)
        self.spent += paid.cost or 0.0
        self._largest_cost = max(self._largest_cost, paid.cost or 0.0)
        return paid

    def _paid(
        self, content: str | None, tokens_in: int, tokens_out: int, *, is_counted: bool
    ) -> PaidReply:
        cost = None if self.price is None else self.price.cost(tokens_in, tokens_out)
        return PaidReply(content, tokens_in, tokens_out, is_counted, cost)


def fields_without_refused(fields: dict[str, Any], message: str) -> dict[str, Any] | None:
    """Optional fields to try after a request was refused; None if none is left to leave out.

    A field that the message names is renamed or left out, otherwise the first one.

    >>> fields_without_refused({"logprobs": True, "temperature": 0}, "temperature must be 1")
    {'logprobs': True}
    """
    for old, new in _RENAMED.items():
        if old in fields and new in message:
            return {new if name == old else name: value for name, value in fields.items()}
    named = [name for name in fields if name in message]
    if not fields:
        return None
    refused = named[0] if named else next(iter(fields))
    return {name: value for name, value in fields.items() if name != refused}


def _may_be_corrected(completion: Completion) -> bool:
    """Whether asking once more may help: not after a refusal or a reply without an end."""
    is_whole = bool(completion.content) and completion.finish != "length"
    return is_whole and completion.refusal is None


def _too_long(n_tokens: int) -> str:
    """Why a run with a budget of money ends after a reply of so many tokens."""
    return (
        f"the endpoint counted {n_tokens:,} tokens of a reply that may have {MAX_REPLY_TOKENS:,}, "
        "so it would not stay within a budget of money; give a number of labels instead"
    )


@dataclass(order=True)
class _Request:
    """A request to send at a time, after so many failed attempts; its number in the record."""

    at: float
    item: Item = field(compare=False)
    prompt: Prompt = field(compare=False)
    key: str = field(compare=False)
    fields: dict[str, Any] = field(compare=False)
    is_second: bool = field(default=False, compare=False)
    number: int = field(default=0, compare=False)
    n_failures: int = field(default=0, compare=False)


class ChatConversation:
    """The requests about a batch; its answers are JSON lines, like those of programs."""

    def __init__(self, model: ChatModel, items: Sequence[Item], form: AnswerForm) -> None:
        self._model = model
        self._form = form
        self._prompts = model.prompts(items)
        self._unsent = deque(items)
        self._waiting: list[_Request] = []
        self._running: dict[int, _Request] = {}
        self._outcomes: SimpleQueue[tuple[int, Completion | EndpointError]] = SimpleQueue()
        self._lines: list[bytes] = []
        self._ending: Ending | None = None

    def receive(self, seconds: float) -> list[bytes] | Ending | None:
        """The next lines, or how the batch ended; None if nothing came in that time."""
        self._send_requests()
        if not self._lines:
            self._receive_outcomes(seconds)
        if self._lines:
            lines = self._lines
            self._lines = []
            return lines
        if self._running:
            return None
        if self._ending is None and not self._unsent and not self._waiting:
            self._ending = Ending()
        return self._ending

    def abort(self) -> None:
        """Send no more; replies that are on their way, and paid for, are awaited for a moment."""
        self._end(Ending())
        deadline = time.monotonic() + _GRACE_SECONDS
        while self._running and time.monotonic() < deadline:
            self._receive_outcomes(0.1)
        for request in self._running.values():
            self._model.spent += self._model.most(request.prompt).cost or 0.0
        self._running.clear()

    def close(self) -> None:
        """Send no more."""
        self._end(Ending())

    def last_error(self) -> str:
        """Nothing: every failure is a line."""
        return ""

    def _end(self, ending: Ending) -> None:
        if self._ending is None:
            self._ending = ending

    def _send_requests(self) -> None:
        """Send as many requests as connections, pauses, rate and cost allow.

        The first one is alone, until its reply has told what the others will cost.
        """
        model = self._model
        n_connections = int(model.n_connections) if model.has_replied else 1
        while self._ending is None and len(self._running) < n_connections:
            now = time.monotonic()
            request = self._next_request(now)
            if request is None:
                return
            if self._is_cached(request):
                continue
            is_paused = now < model.paused_until or model.rate_limit.delay(1) > 0
            if is_paused or not self._can_pay(request):
                heapq.heappush(self._waiting, request)
                return
            self._send(request)

    def _next_request(self, now: float) -> _Request | None:
        """The request that is due, otherwise one about the next item; None if there is none."""
        if self._waiting and self._waiting[0].at <= now:
            return heapq.heappop(self._waiting)
        while self._unsent:
            item = self._unsent.popleft()
            try:
                prompt = self._prompts[item.position]()
            except Unusable as error:
                self._fail(item, str(error))
                continue
            key = prompt.key(self._model.endpoint.url, self._model.model)
            return _Request(now, item, prompt, key, dict(self._model.fields))
        return None

    def _is_cached(self, request: _Request) -> bool:
        """Whether an earlier reply answers the request; its line is added."""
        if request.is_second:
            return False
        for content, confidence in self._model.replies.to(request.key):
            with suppress(Unusable):
                label = read_label(Completion(content), self._form)
                self._answer(request.item, label, confidence)
                return True
        return False

    def _can_pay(self, request: _Request) -> bool:
        """Whether the largest cost covers the request besides those on their way."""
        model = self._model
        if model.max_cost is None:
            return True
        reserved = sum(model.bound(running.prompt) for running in self._running.values())
        if model.spent + reserved + model.bound(request.prompt) <= model.max_cost:
            return True
        if not self._running:
            self._end(Ending("another request might cost too much", is_too_costly=True))
        return False

    def _send(self, request: _Request) -> None:
        """Send a request in a thread of its own."""
        model = self._model
        cost = model.most(request.prompt)
        number = model.replies.expect(request.key, model.annotator, model.model, cost)
        request.number = number
        self._running[number] = request
        model.rate_limit.record(1)
        body = model.body(request.prompt, request.fields)

        def complete() -> None:
            try:
                self._outcomes.put((number, model.endpoint.complete(body)))
            except EndpointError as error:
                self._outcomes.put((number, error))
            except Exception as error:  # a fault of this program must not leave the batch waiting
                message = f"the request failed ({type(error).__name__})"
                self._outcomes.put((number, EndpointError(message, paid=True)))

        Thread(target=complete, daemon=True).start()

    def _receive_outcomes(self, seconds: float) -> None:
        """Handle one outcome, awaited for so long, and all others that are there."""
        with suppress(Empty):
            number, outcome = self._outcomes.get(timeout=max(seconds, 0.001))
            while True:
                request = self._running.pop(number, None)
                if request is None:
                    pass  # the run was stopped, and did not wait for it
                elif isinstance(outcome, EndpointError):
                    self._record_failure(request, outcome)
                    self._handle_error(request, outcome)
                else:
                    self._handle_reply(request, outcome)
                number, outcome = self._outcomes.get_nowait()

    def _record_failure(self, request: _Request, error: EndpointError) -> None:
        """Count a request without a reply as paid, at the most it can cost, unless it is not."""
        if error.paid:
            self._model.spent += self._model.most(request.prompt).cost or 0.0
        else:
            self._model.replies.cancel(request.number)

    def _handle_reply(self, request: _Request, completion: Completion) -> None:
        """Record a reply, then read its label; ask once more where it has none."""
        model = self._model
        paid = model.record(request.number, request.prompt, completion)
        if model.max_cost is not None and paid.tokens_out > MAX_REPLY_TOKENS:
            self._end(Ending(_too_long(paid.tokens_out), final=True))
        if completion.fault is not None:
            self._handle_error(request, EndpointError(completion.fault, retry=True))
            return
        if not model.has_replied:
            model.fields = request.fields
            model.has_replied = True
        model.n_connections = min(_N_CONNECTIONS, model.n_connections + _RECOVERY)
        try:
            label = read_label(completion, self._form)
        except Unusable as error:
            if request.is_second or not _may_be_corrected(completion):
                self._fail(request.item, str(error))
                return
            prompt = request.prompt.again(completion.content, str(error))
            second = replace(request, prompt=prompt, is_second=True, n_failures=0)
            heapq.heappush(self._waiting, second)
            return
        confidence = label_confidence(completion, label)
        if confidence is not None:
            model.replies.record_confidence(request.number, confidence)
        self._answer(request.item, label, confidence)

    def _handle_error(self, request: _Request, error: EndpointError) -> None:
        """Try a failed request again: without a refused field, or later."""
        model = self._model
        now = time.monotonic()
        fields = self._fields_to_try(request, str(error)) if error.status in _REFUSED else None
        if fields is not None:
            heapq.heappush(self._waiting, replace(request, fields=fields, at=now))
            return
        wait = min(_MAX_BACKOFF_SECONDS, model.first_wait * 2.0**request.n_failures)
        wait = max(wait, error.wait or 0.0)
        if error.status == _TOO_MANY and now >= model.paused_until:
            model.paused_until = now + wait
            model.n_connections = max(1.0, model.n_connections / 2)
        can_retry = error.retry and request.n_failures < model.retries
        if can_retry and wait <= _MAX_WAIT_SECONDS:
            later = replace(request, at=now + wait, n_failures=request.n_failures + 1)
            heapq.heappush(self._waiting, later)
            return
        message = str(error)
        if wait > _MAX_WAIT_SECONDS:
            message += f", and asks to wait {wait:,.0f} s"
        self._fail(request.item, message)
        if error.final or wait > _MAX_WAIT_SECONDS:
            self._end(Ending(message, final=True))

    def _fields_to_try(self, request: _Request, message: str) -> dict[str, Any] | None:
        """Other optional fields for a refused request; None if they are not the reason.

        Once the server has taken a request, its fields are used for all of them.
        """
        model = self._model
        if not model.has_replied:
            return fields_without_refused(request.fields, message)
        return model.fields if request.fields != model.fields else None

    def _answer(self, item: Item, label: Any, confidence: float | None) -> None:
        """Add the line of an answer; label None abstains."""
        record = {"id": item.id, "label": label}
        if confidence is not None:
            record["confidence"] = confidence
        self._lines.append(json.dumps(record, ensure_ascii=False).encode())

    def _fail(self, item: Item, reason: str) -> None:
        """Add the line of an item without an answer."""
        self._lines.append(json.dumps({"id": item.id, "error": reason}).encode())

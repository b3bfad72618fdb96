"""An OpenAI-compatible chat endpoint that answers by a rule, on a real port.

A model of keywords: a message with one of a few words is spam. ``misbehave(request, number)`` may
answer instead of the rule, in every way in which servers fail.
"""

import json
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

KEY = "sk-a-key-that-must-not-be-found-anywhere"
SPAM_WORDS = ("prize", "claim", "urgent", "winner", "free", "cash", "txt", "call now")


def item_of(request):
    """The item that a request is about, as its JSON text."""
    content = next(m["content"] for m in request.body["messages"][1:] if m["role"] == "user")
    text = content if isinstance(content, str) else content[0]["text"]
    return text.rpartition("The item to label:")[2].split("<item>")[1].split("</item>")[0].strip()


def rule(request):
    """The label that the rule gives."""
    text = item_of(request).lower()
    return "spam" if any(word in text for word in SPAM_WORDS) else "ham"


def completion(content, *, tokens=(200, 8), logprob=None, **message):
    """The body of a response with this content."""
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": content, **message},
    }
    if logprob is not None:
        middle = content.index(":") + 2
        pieces = [content[:middle], content[middle:-1], content[-1]]
        choice["logprobs"] = {
            "content": [
                {"token": piece, "logprob": logprob if i == 1 else 0.0}
                for i, piece in enumerate(pieces)
            ]
        }
    body = {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice]}
    if tokens:
        body["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return body


def labelled(request, label=None):
    """The response with a label, that of the rule by default."""
    return completion(json.dumps({"label": label if label is not None else rule(request)}))


class Failure(Exception):
    """A response with an error: status, message, headers."""

    def __init__(self, status, message="no", **headers):
        super().__init__(message)
        self.status = status
        self.headers = headers


class Cut(Exception):
    """The connection ends in the middle of a response."""


@contextmanager
def chat_server(misbehave=lambda request, number: None, delay=0.0):
    """Serve until the block ends: ``url``, and all requests ``seen``.

    ``misbehave`` returns a body (a record, or bytes) to send instead of the rule's answer, or
    raises :class:`Failure` or :class:`Cut`; None answers by the rule.
    """
    seen = []
    lock = threading.Lock()
    running = SimpleNamespace(now=0, most=0)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = SimpleNamespace(
                path=self.path, headers=dict(self.headers), body=body, at=time.monotonic()
            )
            with lock:
                seen.append(request)
                number = len(seen)
                running.now += 1
                running.most = max(running.most, running.now)
            self.close_connection = True
            try:
                time.sleep(delay)
                self.answer(request, number)
            finally:
                with lock:
                    running.now -= 1

        def answer(self, request, number):
            if not request.path.endswith("/v1/chat/completions"):
                return self.send(404, {"error": {"message": f"no {request.path}"}})
            try:
                record = misbehave(request, number) or labelled(request)
            except Failure as failure:
                return self.send(
                    failure.status, {"error": {"message": str(failure)}}, failure.headers
                )
            except Cut:
                data = json.dumps(labelled(request)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) // 2])
                return None
            return self.send(200, record)

        def send(self, status, record, headers=None):
            data = record if isinstance(record, bytes) else json.dumps(record).encode()
            self.send_response(status)
            for name, value in {"Content-Length": len(data), **(headers or {})}.items():
                self.send_header(name.replace("_", "-"), str(value))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(data)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        yield SimpleNamespace(url=url, seen=seen, running=running)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

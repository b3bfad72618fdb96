"""A real server on a real project, and a client that can also say what a browser never would."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from parbals.project.features import store_features
from parbals.store.store import Store

CLASSES = ("ham", "spam")
SERVE = "from parbals.cli.serve import serve; serve()"


def make_project(
    folder, n_items=40, *, classes=CLASSES, queued=20, content=None, ids=None, **settings
):
    """A project of short texts with four features; ``queued`` items wait on the page, in order."""
    content = content or [{"text": f"message number {n}"} for n in range(n_items)]
    ids = ids or [f"m{n:03d}" for n in range(len(content))]
    remembered = {
        "columns": list(content[0]),
        "encoded_columns": [next(iter(content[0]))],
        "encoder": "tfidf",
    }
    remembered |= {"strategy": "parbals-epig", "seed": 0, **settings}
    with Store.create(folder, classes=list(classes), settings=remembered) as store:
        store.add_items(zip(ids, content, strict=True))
        rows = np.random.default_rng(0).standard_normal((len(content), 4))
        store.update_settings(features=store_features(Path(folder), rows.astype(np.float32)))
        if queued:
            batch = [(position, 1.0 - position / 1000, 1.0) for position in range(queued)]
            store.record_batch("parbals-epig", 0, batch, {}, queued=True)
    return Path(folder)


@dataclass
class Answer:
    """What the server said."""

    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]["code"]


class Server:
    """`parbals serve` in a process of its own."""

    def __init__(self, folder, *options, port=0, cache=None, before=""):
        environment = {
            **os.environ,
            "PARBALS_CACHE_DIR": str(cache or Path(folder).parent / "cache"),
        }
        command = [
            sys.executable,
            "-c",
            before + SERVE,
            str(folder),
            "--no-browser",
            "--port",
            str(port),
            *options,
        ]
        self.folder = Path(folder)
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        line = self.process.stdout.readline()
        if "http://" not in line:
            _, errors = self.process.communicate()
            raise AssertionError(f"the server did not start: {line}{errors}")
        self.link = line.split()[-1]
        self.port = int(self.link.split(":")[2].split("/")[0])
        self.token = self.link.split("token=")[1]

    def call(self, method, path, body=None, headers=None, *, token=True, timeout=60):
        """One request; ``body`` is made JSON unless it is bytes."""
        sent = {"Authorization": f"Bearer {self.token}"} if token else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, {**sent, **(headers or {})})
            response = connection.getresponse()
            return Answer(
                response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
            )
        finally:
            connection.close()

    def get(self, path, **options):
        return self.call("GET", path, **options)

    def post(self, path, body, **options):
        return self.call("POST", path, body, **options)

    def take(self, annotator, n=1):
        answer = self.post("/api/take", {"annotator": annotator, "n": n})
        assert answer.status == 200, answer.body
        return [item["position"] for item in answer.json["items"]]

    def label(self, annotator, position, label="ham", request=None, **more):
        one = {
            "position": position,
            "label": label,
            "request_id": request or f"{annotator}-{position}",
            **more,
        }
        return self.post("/api/answers", {"annotator": annotator, "answers": [one]})

    def raw(self, data, timeout=10):
        """Bytes straight to the socket; what came back until the server closed or fell silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as link:
            link.sendall(data)
            received = b""
            try:
                while part := link.recv(65536):
                    received += part
            except TimeoutError:
                pass
            return received

    def stop(self):
        """Ctrl-C."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        out, errors = self.process.communicate(timeout=60)
        return self.process.returncode, out, errors

    def kill(self):
        """kill -9: nothing gets a chance to tidy up."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def serving(folder, *options, **more):
    """A server that is stopped at the end and must not have reported a mistake of its own."""
    server = Server(folder, *options, **more)
    try:
        yield server
    finally:
        code, _, errors = server.stop()
    assert "Traceback" not in errors, errors
    assert code == 0, (code, errors)

"""The page of a real project, and a client that can also say what a browser never would."""

import http.client
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from parbals_label.project.features import store_features
from parbals_label.server.connections import listen
from parbals_label.store.store import Store
from parbals_label.web.address import PageAddress
from parbals_label.web.page_files import page_token
from parbals_label.web.serve import make_server
from parbals_label.web.session import Session

CLASSES = ("ham", "spam")
WITHOUT_WORKER = (
    "from parbals_label.web.supervisor import Supervisor as s;s.start = s.stop = lambda self: None;"
)
"""Before ``SERVE``: most of what a server does needs no process that chooses items."""
SERVE = "import sys; sys.argv.insert(1, 'serve'); from parbals.cli import program; program()"


def make_project(
    folder, n_items=40, *, classes=CLASSES, queued=20, content=None, ids=None, **settings
):
    """A project of short texts with four features; ``queued`` items wait on the page, in order."""
    content = content or [{"text": f"message number {n}"} for n in range(n_items)]
    ids = ids or [f"m{n:03d}" for n in range(len(content))]
    remembered = {
        "columns": list(content[0]),
        "encoded_columns": [next(iter(content[0]))],
        "encoder": "words",
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


def make_certificate(folder, host="localhost"):
    """A certificate that nobody else has signed, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def wait_for(look, patience=300.0):
    """What ``look`` returns once it returns something; a worker needs a while to load its model."""
    end = time.monotonic() + patience
    while not (value := look()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)
    return value


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


class Client:
    """Somebody with the link of a server: its ``port`` and ``token``."""

    def visit(self, token=None, host=None):
        """Open a link as a browser does: the headers of the session that it gets."""
        host = host or f"127.0.0.1:{self.port}"
        door = self.get(f"/?token={token or self.token}", token=False, headers={"Host": host})
        assert door.status == 200, door.body
        cookie = door.headers["set-cookie"].split(";")[0]
        key = re.search(rb"data-key=([A-Za-z0-9_-]+)", door.body)[1].decode()
        origin = {"Host": host, "Origin": f"http://{host}"}
        return {"Cookie": cookie, "X-Parbals-Key": key, **origin}

    def call(self, method, path, body=None, headers=None, *, token=True):
        """One request; ``body`` is made JSON unless it is bytes."""
        sent = {"Authorization": f"Bearer {self.token}"} if token else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
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
        request = request or f"{annotator}-{position}"
        one = {"position": position, "label": label, "request_id": request, **more}
        return self.post("/api/answers", {"annotator": annotator, "answers": [one]})

    def skip(self, annotator, position, kind="skip", request="p", **more):
        body = {"annotator": annotator, "position": position, "kind": kind, "request_id": request}
        return self.post("/api/passes", {**body, **more})

    def mine(self, annotator, positions):
        """Renew leases; those that are still the annotator's."""
        body = {"annotator": annotator, "positions": positions}
        return self.post("/api/leases", body).json["mine"]

    def raw(self, data, timeout=300):
        """Bytes straight to the socket; the answer, or what came until the server fell silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as link:
            link.sendall(data)
            received = b""
            try:
                while not _is_whole(received) and (part := link.recv(65536)):
                    received += part
            except TimeoutError:
                pass
            return received


def _is_whole(received):
    head, end, body = received.partition(b"\r\n\r\n")
    lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
    lengths = [int(value) for name, _, value in lines if name == b"content-length"]
    return bool(end and lengths) and len(body) >= lengths[0]


class Server(Client):
    """`parbals serve` in a process of its own."""

    def __init__(self, folder, *options, port=0, before="", browser=False, token_in=None):
        self.folder = Path(token_in or folder)
        cache = {"PARBALS_CACHE_DIR": str(self.folder.parent / "cache")}  # where there is none
        program = [sys.executable, "-c", before + SERVE, str(folder)]
        self.process = subprocess.Popen(
            [*program, *([] if browser else ["--no-browser"]), "--port", str(port), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=cache | os.environ,
            start_new_session=True,
        )
        line = self.process.stdout.readline()
        if "http" not in line:
            _, errors = self.process.communicate()
            raise AssertionError(f"the server did not start: {line}{errors}")
        self.link = line.split()[-1]
        self.port = port or int(self.link.split(":")[2].split("/")[0])
        self.token = (self.folder / "page-token").read_text().strip()

    def stop(self, number=signal.SIGINT):
        """Ctrl-C, or another signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        out, errors = self.process.communicate(timeout=300)
        return self.process.returncode, out, errors

    def kill(self):
        """kill -9: nothing gets a chance to tidy up."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def serving(folder, *options, **more):
    """A server process that is stopped at the end and must not have made a mistake of its own."""
    server = Server(folder, *options, **more)
    try:
        yield server
    except BaseException as error:
        error.add_note(f"The server wrote: {server.stop()[2]}")
        raise
    code, _, errors = server.stop()
    assert "Traceback" not in errors, errors
    assert code == 0, (code, errors)


def workers_of(server):
    """Process ids of the server's worker, found by what it was started with."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    return [
        int(pid)
        for pid, parent, words in rows
        if int(parent) == server.process.pid and "web.worker" in words
    ]


class _Local(Client):
    """The same server in a thread of the tests, without the process that chooses items."""

    def __init__(self, folder, host="127.0.0.1", new_token=False, port=0, **options):
        self.folder = Path(folder)
        self.token = page_token(Path(folder), new=new_token)
        self.session = Session(self.folder)
        self.session.open()
        self.listener = listen(host, port)
        self.port = self.listener.getsockname()[1]
        address = PageAddress(host=host, port=self.port, **options)
        self.link = address.link(self.token)
        self._server = make_server(self.session, address=address, token=self.token)
        self._server.config.lifespan = "off"
        self.watch = self._server.config.app
        self.guard = self.watch.app
        self.connections = self._server.server_state.connections
        self._thread = threading.Thread(target=self._server.run, args=([self.listener],))
        self._thread.start()

    def stop(self):
        self._server.should_exit = True
        self._thread.join()
        self.listener.close()
        self.session.close()


@contextmanager
def page(folder, **options):
    """The page without processes of its own; it must not make a mistake."""
    mistakes = logging.Handler(logging.ERROR)
    mistakes.emit = lambda record: records.append(record.exc_info or record.getMessage())
    records = []
    log = logging.getLogger("parbals.web")
    log.addHandler(mistakes)
    server = _Local(folder, **options)
    try:
        yield server
    finally:
        server.stop()
        log.removeHandler(mistakes)
    assert records == []

"""nginx and Caddy with the files under deploy/, in front of the real page."""

import base64
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
from contextlib import closing, contextmanager

import pytest
from page_server import make_certificate, make_project, page, wait_for
from parbals_label.store.store import Store
from repository import ROOT

DEPLOY = ROOT / "deploy"
NAME = "label.example"


class Browser:
    """Somebody outside, who reaches the proxy by its name."""

    def __init__(self, port, certificate):
        self.port = port
        self.trusting = ssl.create_default_context(cafile=str(certificate))
        self.session = {}

    def call(self, method, path, body=None, headers=None):
        connection = http.client.HTTPSConnection(NAME, self.port, timeout=60)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sock = self.trusting.wrap_socket(plain, server_hostname=NAME)
        sent = {"Origin": f"https://{NAME}:{self.port}", **self.session, **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        with closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            return answer, answer.read()

    def open(self, token):
        door, body = self.call("GET", f"/?token={token}")
        assert door.status == 200, body
        cookie = door.headers["set-cookie"]
        assert cookie.startswith("__Host-parbals-")
        assert "; Secure" in cookie
        key = re.search(rb"data-key=([\w-]+)", body)[1].decode()
        self.session = {"Cookie": cookie.split(";")[0], "X-Parbals-Key": key}

    def me(self, **headers):
        answer, body = self.call("GET", "/api/me", headers=headers)
        return answer.status, json.loads(body)


@contextmanager
def nginx(program, folder, port, upstream, login=None):
    """nginx with our file, in a folder of its own."""
    certificate, key = make_certificate(folder, NAME)
    text = (DEPLOY / "nginx.conf").read_text()
    text = text.replace(
        "listen 80;", f"listen {folder}/plain.sock;".replace("listen ", "listen unix:")
    )
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    text = text.replace("127.0.0.1:8573", f"127.0.0.1:{upstream}")
    text = text.replace("/etc/ssl/label.example.pem", str(certificate))
    text = text.replace("/etc/ssl/label.example.key", str(key))
    text = text.replace("/var/log/nginx", str(folder))
    if login:
        (folder / "htpasswd").write_text(login)
        text = re.sub(r"#login ", "", text).replace(
            "/etc/nginx/parbals.htpasswd", f"{folder}/htpasswd"
        )
    (folder / "page.conf").write_text(text)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in
        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )  # fmt: skip
    (folder / "main.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/main.log;"
        f"events {{}} http {{ {temporary} include {folder}/page.conf; }}"
    )
    command = [program, "-p", str(folder), "-c", str(folder / "main.conf")]
    with running(command, port, signal.SIGQUIT):
        yield Browser(port, certificate)


@contextmanager
def caddy(program, folder, port, upstream, login=None):
    """Caddy with our file."""
    certificate, key = make_certificate(folder, NAME)
    text = (DEPLOY / "Caddyfile").read_text()
    # No certificate from elsewhere, no other ports, no interface to change it.
    text = text.replace("{\n\t# A personal", "{\n\tadmin off\n\tauto_https off\n\t# A personal", 1)
    text = text.replace("\tlog\n", f"\ttls {certificate} {key}\n\tlog\n", 1)
    text = text.replace("\tlog {\n", f"\tlog {{\n\t\toutput file {folder}/caddy.log\n", 1)
    if login:
        text = re.sub(r"#login (.*ada ).*", rf"\1{login}", text).replace("#login ", "")
        version = subprocess.run([program, "version"], capture_output=True, text=True).stdout
        if [int(n) for n in re.findall(r"\d+", version)[:2]] < [2, 8]:
            text = text.replace("basic_auth", "basicauth")
    (folder / "Caddyfile").write_text(text)
    here = {"PARBALS_SITE": f"https://{NAME}:{port}", "PARBALS_UPSTREAM": f"127.0.0.1:{upstream}"}
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    command = [program, "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    with running(command, port, signal.SIGTERM, {**here, **home}):
        yield Browser(port, certificate)


@contextmanager
def running(command, port, end, more=None):
    process = subprocess.Popen(
        command,
        env={**os.environ, **(more or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

    def answers():
        assert process.poll() is None, process.communicate()[0].decode()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(answers, 60)
        yield
    finally:
        process.send_signal(end)
        process.communicate(timeout=60)


PROXIES = {"nginx": nginx, "caddy": caddy}
KINDS = ["nginx", pytest.param("caddy", marks=pytest.mark.full)]


@pytest.fixture
def folder(tmp_path):
    folder = make_project(tmp_path / "mail")
    (tmp_path / "proxy").mkdir()
    with Store.open(folder) as store:
        links = {name: store.invite(name, role) for name, role in
                 (("ada", "annotator"), ("Olga", "owner"))}  # fmt: skip
    (tmp_path / "links.json").write_text(json.dumps(links))
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_team_labels_through_the_proxy(kind, tool, free_port, folder, tmp_path):
    program = tool(kind)
    port = free_port()
    path = tmp_path / "proxy"
    links = json.loads((tmp_path / "links.json").read_text())
    with page(folder, public=f"https://{NAME}:{port}") as server:
        with PROXIES[kind](program, path, port, server.port) as ada:
            assert ada.me()[0] == 401
            # Nobody can say from outside who has logged in, nor where they come from.
            assert ada.me(**{"X-Remote-User": "olga"})[0] == 401
            ada.open(links["ada"])
            assert ada.me()[1]["name"] == "ada"
            # Caddy answers other names with nothing at all.
            assert b"ada" not in ada.call("GET", "/api/me", headers={"Host": "evil.example"})[1]
            take = {"annotator": "ada", "n": 1}
            assert ada.call("POST", "/api/take", take)[0].status == 200
            answer = {"position": 0, "label": "ham", "request_id": "r"}
            labels = {"annotator": "ada", "answers": [answer]}
            assert ada.call("POST", "/api/answers", labels)[0].status == 200
            foreign = {"Origin": "https://evil.example"}
            assert ada.call("POST", "/api/answers", labels, foreign)[0].status == 403
            assert ada.call("GET", "/api/export")[0].status == 403
            ada.open(links["Olga"])
            spoofed = {"X-Forwarded-For": "203.0.113.9"}
            export, rows = ada.call("GET", "/api/export?format=jsonl", headers=spoofed)
            assert (export.status, rows.count(b"\n")) == (200, 40)
            large = {"guidelines": "x" * 1_100_000}
            # Caddy may find the page's refusal too early.
            assert ada.call("PATCH", "/api/settings", large)[0].status in (413, 502)
            session = dict(ada.session)
            upstream = server.port
        with Store.open(folder, read_only=True) as store:
            assert store.current_labels() == {0: {"ada": "ham"}}
            last = store.events()[-1]
            assert (last.kind, last.who, last.origin) == ("exported", "Olga", "127.0.0.1")
    with PROXIES[kind](program, path, port, upstream) as ada:  # the page is away: errors are logged
        assert ada.call("GET", f"/?token={links['ada']}", headers=session)[0].status == 502
    logged = b"".join(file.read_bytes() for file in path.rglob("*.log"))
    assert b"/api/export" in logged
    secrets = [*links.values(), session["Cookie"].split("=")[1], session["X-Parbals-Key"]]
    assert not [secret for secret in secrets if secret.encode() in logged]


@pytest.mark.parametrize("kind", KINDS)
def test_people_who_log_in_at_the_proxy_need_no_link(kind, tool, free_port, folder, tmp_path):
    program = tool(kind)
    port = free_port()
    if kind == "nginx":
        word = subprocess.run(
            [tool("openssl"), "passwd", "-apr1", "secret"], capture_output=True, text=True
        ).stdout.strip()
        login = f"ada:{word}\neve:{word}\n"
    else:
        command = [program, "hash-password", "--plaintext", "secret"]
        login = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    place = {"public": f"https://{NAME}:{port}", "user_header": "X-Remote-User"}
    with (
        page(folder, **place) as server,
        PROXIES[kind](program, tmp_path / "proxy", port, server.port, login) as browser,
    ):

        def password(name):
            return {
                "Authorization": f"Basic {base64.b64encode(f'{name}:secret'.encode()).decode()}"
            }

        assert browser.call("GET", "/")[0].status == 401
        assert browser.call("GET", "/", headers={"X-Remote-User": "olga"})[0].status == 401
        assert browser.me(**password("ada")) == (
            200,
            {"name": "ada", "role": "annotator", "spelt": None},
        )
        assert browser.me(**password("ada"), **{"X-Remote-User": "olga"})[1]["name"] == "ada"
        take = {"annotator": "ada", "n": 1}
        assert browser.call("POST", "/api/take", take, password("ada"))[0].status == 200
        assert b"<html" in browser.call("GET", "/", headers=password("ada"))[1]
        if kind == "nginx":  # known to the proxy, and not invited
            assert browser.me(**password("eve"))[0] == 403


@pytest.mark.parametrize("kind", KINDS)
def test_a_proxy_whose_login_is_not_set_up_lets_nobody_say_a_name(
    kind, tool, free_port, folder, tmp_path
):
    """The file as it is shipped, in front of a page that believes the header."""
    program = tool(kind)
    port = free_port()
    links = json.loads((tmp_path / "links.json").read_text())
    place = {"public": f"https://{NAME}:{port}", "user_header": "X-Remote-User"}
    with (
        page(folder, **place) as server,
        PROXIES[kind](program, tmp_path / "proxy", port, server.port) as browser,
    ):
        said = base64.b64encode(b"Olga:x").decode()
        for headers in (
            {"Authorization": f"Basic {said}"},
            {"X-Remote-User": "Olga"},
            {"Authorization": f"Basic {said}", "X-Remote-User": "Olga", "x-remote-user": "Olga"},
        ):
            assert browser.me(**headers)[0] == 401, headers
        # Links work beside it, whatever password the browser also sends.
        browser.open(links["ada"])
        assert browser.me(Authorization=f"Basic {said}")[1]["name"] == "ada"
        answer, _ = browser.call("GET", "/api/me")
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"

"""The systemd unit is checked and its command run; Dockerfile and compose file are read closely."""

import configparser
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from page_server import Client, make_project
from parbals.cli.main import parbals
from parbals_label.cli.serve import serve
from parbals_label.store.store import Store
from parbals_label.web.address import PageAddress
from repository import ROOT

DEPLOY = ROOT / "deploy"
DIGEST = r"@sha256:[0-9a-f]{64}"


def unit():
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read(DEPLOY / "parbals.service")
    return parser["Service"]


def test_systemd_takes_the_unit(tool, tmp_path):
    analyze = tool("systemd-analyze")
    text = (DEPLOY / "parbals.service").read_text()
    program = unit()["ExecStart"].split()[0]
    file = tmp_path / "parbals.service"
    file.write_text(text.replace(program, sys.executable))  # it must exist to be accepted
    checked = subprocess.run([analyze, "verify", str(file)], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    broken = tmp_path / "broken.service"
    broken.write_text(file.read_text().replace("ProtectHome=yes", "ProtectHome=perhaps"))
    refused = subprocess.run([analyze, "verify", str(broken)], capture_output=True, text=True)
    assert "Failed to parse" in refused.stderr  # the check can fail


def test_the_units_command_serves_the_page_says_no_secret_and_ends_cleanly(tmp_path, free_port):
    folder = make_project(tmp_path / "project")
    port = free_port()
    with Store.open(folder) as store:
        link = store.invite("Olga", "owner")
    service = unit()
    program, *arguments = shlex.split(service["ExecStart"])
    assert program.endswith("/parbals")
    arguments = [str(folder) if word == "/var/lib/parbals/project" else word for word in arguments]
    assert str(folder) in arguments
    process = subprocess.Popen(
        [sys.executable, "-m", "parbals", *arguments, "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PARBALS_CACHE_DIR": str(tmp_path / "cache"), "PYTHONUNBUFFERED": "1"},
    )
    try:
        output = process.stdout.readline()
        assert output == "The labelling page: https://label.example\n"
        client = Client()
        client.port = port
        client.token = link
        headers = client.visit(host="label.example") | {"Origin": "https://label.example"}
        assert client.get("/api/me", token=False, headers=headers).json["name"] == "Olga"
    finally:
        process.send_signal(getattr(signal, service["KillSignal"]))
        out, errors = process.communicate(timeout=int(service["TimeoutStopSec"]) + 60)
    assert process.returncode == 0
    assert errors == ""
    # What a service says is kept in the machine's log.
    token = (folder / "page-token").read_text().strip()
    assert not any(secret in output + out for secret in (token, link))


def instructions():
    """(instruction, rest) of the Dockerfile, lines that go on joined."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def check_command(words):
    """A command line of parbals that its own parser takes."""
    name, *rest = words
    assert name == serve.name
    return serve.make_context(name, list(rest)).params


def test_the_dockerfile_builds_from_what_is_there_and_runs_as_nobody_special():
    lines = instructions()
    known = {
        "FROM", "COPY", "RUN", "USER", "WORKDIR", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL",
        "HEALTHCHECK", "ENTRYPOINT", "CMD",
    }  # fmt: skip
    assert lines[0][0] == "FROM"
    assert {word for word, _ in lines} <= known
    (base,) = [rest for word, rest in lines if word == "FROM"]
    assert re.fullmatch(rf"python:3\.\d+-slim{DIGEST}", base)
    for rest in (rest for word, rest in lines if word == "COPY"):
        *sources, destination = rest.split()
        assert destination.startswith("/")
        assert all((ROOT / source).exists() for source in sources)
    order = [word for word, _ in lines]
    assert order.index("USER") > order.index("RUN")
    assert dict(lines)["USER"] not in ("root", "0")
    values = {word: yaml.safe_load(rest) for word, rest in lines if word in ("ENTRYPOINT", "CMD")}
    assert values["ENTRYPOINT"] == ["parbals"]
    options = check_command(values["CMD"])
    assert (options["host"], str(options["port"])) == ("0.0.0.0", dict(lines)["EXPOSE"])
    assert dict(lines)["STOPSIGNAL"] == "SIGINT"


def test_the_compose_file_fits_the_files_beside_it():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    page = compose["services"]["parbals"]
    project = compose["services"]["project"]
    proxy = compose["services"]["caddy"]
    assert (DEPLOY / page["build"]["context"] / page["build"]["dockerfile"]).samefile(
        DEPLOY / "Dockerfile"
    )
    words = [re.sub(r"\$\{PARBALS_SITE[^}]*\}", "label.example", w) for w in page["command"]]
    options = check_command(words)
    assert options["public"] == "https://label.example"
    # What the page believes of where people come from is the proxy's word, and nobody else's.
    assert list(options["proxies"]) == [proxy["networks"]["page"]["ipv4_address"]]
    assert "ports" not in page
    # Nobody in a container can become more than they are.
    for service in (page, project, proxy):
        assert (service["cap_drop"], service["read_only"]) == (["ALL"], True)
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert proxy["cap_add"] == ["NET_BIND_SERVICE"]
    assert "cap_add" not in page | project
    assert proxy["environment"]["PARBALS_UPSTREAM"] == f"parbals:{options['port']}"
    for name in ("PARBALS_SITE", "PARBALS_UPSTREAM"):
        assert f"{{${name}:" in (DEPLOY / "Caddyfile").read_text()
    mounted = [volume.split(":")[0] for s in (page, proxy) for volume in s["volumes"]]
    for source in mounted:
        assert source in compose["volumes"] or (DEPLOY / source).is_file(), source
    assert re.fullmatch(rf"caddy:2\.\d+\.\d+{DIGEST}", proxy["image"])


def test_containers_without_a_project_end_with_a_sentence_and_are_not_started_again(tmp_path):
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert services["parbals"]["depends_on"] == {
        "project": {"condition": "service_completed_successfully"}
    }
    assert "restart" not in services["project"]
    (name, folder), (_, served, *_) = services["project"]["command"], services["parbals"]["command"]
    assert folder == served
    # A volume's own folder is there before anything can be created in its place.
    volume = services["parbals"]["volumes"][0].split(":")[1]
    assert Path(folder).parent == Path(volume)
    result = CliRunner().invoke(parbals, [name, str(tmp_path / "project")])
    assert result.exit_code != 0
    (sentence,) = str(result.exception).splitlines()
    assert sentence.startswith("There is no project")


def test_a_build_reads_what_the_dockerfile_copies_and_nothing_else():
    """Without this list the whole clone is sent, its history and environments included."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    copies = [rest.split() for word, rest in instructions() if word == "COPY"]
    assert rules[0] == "*"
    included = [rule[1:] for rule in rules if rule.startswith("!")]
    assert included == [source for *sources, _ in copies for source in sources]


@pytest.mark.parametrize("file", ["nginx.conf", "Caddyfile", "parbals.service", "oauth2-proxy.cfg"])
def test_the_options_that_the_files_name_exist(file):
    options = {opt for parameter in serve.params for opt in parameter.opts}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (DEPLOY / file).read_text()))
    commands = {"--system", "--home-dir", "--now", "--role", "--config"}  # of the comments
    commands |= {"--require-hashes", "--no-deps", "--no-build-isolation"}
    assert named - commands <= options
    assert "--public-url" in named


def directives(text):
    """nginx: the directives of the last location, in order; what is commented out is none."""
    body = re.sub(r"#.*", "", text).rpartition("location / {")[2].partition("}")[0]
    return [" ".join(part.split()) for part in body.split(";") if part.strip()]


def test_a_name_counts_only_together_with_the_password():
    """Whatever part of the login is set up: no nginx here need be started to see that."""
    lines = (DEPLOY / "nginx.conf").read_text()
    said = [d for d in directives(lines) if "X-Remote-User" in d]
    assert said == ['proxy_set_header X-Remote-User ""']
    logins = [line for line in lines.splitlines() if line.strip().startswith("#login")]
    assert len(logins) == 1  # nobody can take away half of the marks
    named = [d for d in directives(lines.replace("#login ", "")) if "remote_user" in d]
    assert named == ["proxy_set_header X-Remote-User $remote_user"]
    assert "auth_basic " in logins[0]
    caddy = (DEPLOY / "Caddyfile").read_text()
    assert "request_header -X-Remote-User" in caddy
    # Caddy sets this name by a login alone.
    assert re.findall(r"header_up X-Remote-User (.*)", caddy) == ["{http.auth.user.id}"]


def test_the_login_by_openid_connect_passes_on_a_name_that_nobody_can_say_themselves():
    """Its file is read here; the proxy itself is not installed."""
    text = (DEPLOY / "oauth2-proxy.cfg").read_text()
    settings = tomllib.loads(text)
    assert settings["upstreams"] == ["http://127.0.0.1:8573/"]
    assert settings["skip_auth_strip_headers"]
    assert settings["pass_user_headers"]
    assert not settings["pass_basic_auth"]  # a second Authorization beside the page's own
    assert not any("secret" in name for name in settings)
    assert "*" not in settings["email_domains"]
    assert "skip_auth" not in text.replace("skip_auth_strip_headers", "")
    words = text[text.index("parbals serve") :].splitlines()[0].split()
    options = check_command(words[1:])
    assert (options["user_header"], options["public"]) == (
        "X-Forwarded-Email",
        "https://label.example",
    )
    address = PageAddress(port=8573, public=options["public"], user_header=options["user_header"])
    assert settings["redirect_url"].startswith(address.origin)

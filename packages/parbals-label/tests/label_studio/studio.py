"""A real Label Studio server with its embedded database, and people who label in it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import requests
from message_data import truth

EMAIL = "admin@example.com"
PASSWORD = "correct horse 1"
LEGACY = "0123456789abcdef0123456789abcdef01234567"
PROGRAM = os.environ.get("PARBALS_LABEL_STUDIO", ".venv-label-studio/bin/label-studio")
CONFIG = (
    '<View><Text name="item" value="$message"/><Choices name="label" toName="item">'
    '<Choice value="ham"/><Choice value="spam"/></Choices></View>'
)
_CSRF = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


def fresh_studio(folder: Path) -> "Studio":
    """A server with an empty database, which is made once: that takes a minute."""
    template = Path(PROGRAM).absolute().parent.parent / "fresh"
    if not template.is_dir():
        making = template.with_name(f"fresh-{os.getpid()}")
        making.mkdir()
        Studio(making).stop()
        making.rename(template)
    shutil.copytree(template, folder / "studio")
    return Studio(folder / "studio")


class Studio:
    """The server on a port of this machine; ``stop`` and ``start`` keep its data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "server.log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        assert Path(PROGRAM).is_file(), (
            f"{PROGRAM} is not there: make test-label-studio installs it"
        )
        options = ["start", "--no-browser", "--internal-host", "127.0.0.1"]
        options += ["--port", str(self.port), "--data-dir", str(self.folder / "data")]
        options += ["--username", EMAIL, "--password", PASSWORD, "--user-token", LEGACY]
        environment = {
            **os.environ,
            "HOME": str(self.folder),
            "COLLECT_ANALYTICS": "false",
            "LATEST_VERSION_CHECK": "false",
        }
        environment.pop("PYTHONPATH", None)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(Path(PROGRAM).absolute()), *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )
        try:
            until(self.answers, seconds=1800)  # a new database takes a busy machine that long
        except BaseException:
            self.stop()
            raise

    def answers(self):
        try:
            return requests.get(f"{self.url}/health", timeout=5).status_code == 200
        except requests.RequestException:
            log = self.log.read_text("utf-8", errors="replace")[-2000:]
            assert self.process.poll() is None, log
            return False

    def stop(self):
        """Kill -9, as a power cut would."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Person:
    """Somebody with an account; the first one is the administrator."""

    def __init__(self, studio: Studio, email: str = EMAIL, password: str = PASSWORD) -> None:
        self.studio = studio
        self.email = email
        self.session = requests.Session()
        page = "user/login/" if email == EMAIL else "user/signup/"
        form = self.session.get(f"{studio.url}/{page}", timeout=60)
        fields = {"email": email, "password": password, "csrfmiddlewaretoken": self._csrf(form)}
        answer = self.session.post(
            f"{studio.url}/{page}",
            data=fields,
            headers={"Referer": studio.url},
            allow_redirects=False,
            timeout=60,
        )
        assert answer.status_code == 302, answer.text[:2000]

    def _csrf(self, form):
        return self.session.cookies.get("csrftoken") or _CSRF.search(form.text)[1]

    def call(self, method, path, expect=(200, 201, 204), **how):
        headers = {"X-CSRFToken": self.session.cookies["csrftoken"], "Referer": self.studio.url}
        url = f"{self.studio.url}/api/{path}"
        answer = self.session.request(method, url, headers=headers, timeout=120, **how)
        assert answer.status_code in expect, (method, path, answer.status_code, answer.text[:1000])
        return answer.json() if answer.content else None

    def allow_legacy(self, allowed):
        self.call(
            "POST",
            "jwt/settings",
            json={"api_tokens_enabled": True, "legacy_api_tokens_enabled": allowed},
        )

    def new_project(self, title, config="<View></View>", **more):
        made = self.call("POST", "projects", json={"title": title, "label_config": config, **more})
        return made["id"]

    def tasks(self, project):
        """In the order of their numbers."""
        path = f"tasks/?project={project}&fields=all&page_size=1000"
        return sorted(self.call("GET", path)["tasks"], key=lambda task: task["id"])

    def annotate(self, task, choice, control="label", shown="item"):
        """Choose; None skips the task. The annotation's number."""
        region = {"from_name": control, "to_name": shown, "type": "choices"}
        result = [] if choice is None else [{**region, "value": {"choices": [choice]}}]
        body = {"result": result, "was_cancelled": choice is None}
        return self.call("POST", f"tasks/{task}/annotations/", json=body)["id"]

    def change(self, annotation, choice, control="label", shown="item"):
        region = {"from_name": control, "to_name": shown, "type": "choices"}
        body = {"result": [{**region, "value": {"choices": [choice]}}]}
        self.call("PATCH", f"annotations/{annotation}/", json=body)

    def delete(self, what, number):
        """A task or an annotation (``tasks``, ``annotations``)."""
        self.call("DELETE", f"{what}/{number}/")


def until(holds, seconds=300):
    """Wait for it; what it returned."""
    end = time.monotonic() + seconds
    while not (result := holds()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.2)
    return result


def right(task):
    """The true label of a task."""
    return truth(int(task["data"]["parbals_item"]))

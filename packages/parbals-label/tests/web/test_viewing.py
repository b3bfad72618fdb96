"""What the page shows: progress, map, lists, images, downloads."""

import csv
import io
import json
import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from page_server import WITHOUT_WORKER, make_project, page, serving, wait_for
from parbals.learner.evaluation.report import Estimate, Report
from parbals_label.project.engine import refresh
from parbals_label.store.records import Submission
from parbals_label.store.replies import PaidReply, Replies
from parbals_label.store.store import Store
from parbals_label.web.items import show_item

SCRIPT = "<script>alert(1)</script>"


def test_progress_is_counted_and_unchanged_progress_is_not_sent_again(project):
    with Store.open(project) as store:
        store.submit([Submission(30, "spam")], annotator="import", source="import")
        error = Estimate(0.2, 0.1, 0.3)
        loss = Estimate(0.5, 0.4, 0.6)
        report = Report(40, 1, 0, 40, {"ham": 0, "spam": 1}, error, loss, 10, 0.1)
        store.save_report(report.to_dict(), n_labels=1)
    with page(project) as server:
        server.take("ann", 2)
        server.label("ann", 0)
        server.label("bob", 0, "spam")
        server.skip("ann", 1)
        result = wait_for(lambda: (live := server.get("/api/live").json)["passed"] == 1 and live)
        assert (result["labelled"], result["n_items"], result["answers"]) == (2, 40, 3)
        assert (result["out"], result["queued"], result["passed"]) == (0, 19, 1)
        assert result["class_balance"] == {"ham": 1, "spam": 1}
        people = [(who["name"], who["answers"], who["source"]) for who in result["annotators"]]
        assert people == [("ann", 1, "person"), ("bob", 1, "person"), ("import", 1, "import")]
        assert result["report"]["n_labels"] >= 1
        assert {"mean": 0.2, "low": 0.1, "high": 0.3}.items() <= result["history"][0].items()
        assert result["agreement"]["n_items"] == 1
        assert result["agreement"]["pairs"][0]["n"] == 1
        assert result["server"]["started"]

        def settled():
            now = server.get("/api/live").json
            again = server.get(f"/api/live?since={now['revision']}").json
            return again["unchanged"] and again

        assert set(wait_for(settled)) == {"unchanged", "revision", "queue", "features"}


def test_programs_are_reported_with_their_error_and_cost(project):
    with Store.open(project) as store:
        labels = [Submission(position, "ham") for position in range(10, 20)]
        store.submit(labels, annotator="machine:gpt", source="machine")
        store.submit([Submission(10, "spam")], annotator="ann")
    with Replies(project) as replies:
        paid = PaidReply("x", 900, 10, True, 0.5)
        replies.expect("key", "machine:gpt", "gpt", paid)
    with page(project) as server:
        (program,) = server.get("/api/live").json["programs"]
    assert (program["name"], program["n_labels"]) == ("machine:gpt", 10)
    assert program["lines"][0].startswith("Good enough? Without a goal nobody can tell")
    assert "wrong in 1 of 1 answers" in program["lines"][1]
    assert program["usage"] == "1 request, 900 tokens in and 10 out, cost 0.50."


def test_an_owner_draws_random_items_that_show_whether_the_goal_is_reached(project):
    with Store.open(project) as store:
        store.update_settings(goal_error=0.99)
        labels = [Submission(position, "ham") for position in range(30, 40)]
        store.submit(labels, annotator="ann")
        refresh(store)
    with page(project) as server:
        before = server.get("/api/live").json["advice"]
        assert (before["is_reached"], before["measures"]) == (False, True)
        assert server.post("/api/measure", {"n": 5}).json == {"drawn": 5}
        live = wait_for(
            lambda: not (now := server.get("/api/live").json)["advice"]["measures"] and now
        )
        assert live["certificate"].startswith("0 of the sample's 5 items are labelled")
        assert (live["is_measuring"], live["measurable"], live["undoable"]) == (True, 30, 5)
        assert server.post("/api/measure/undo", {}).json == {"undone": 5}
        live = wait_for(lambda: not (now := server.get("/api/live").json)["undoable"] and now)
        assert (live["is_measuring"], live["measurable"]) == (False, 30)
        assert server.post("/api/measure/undo", {}).status == 422
        assert server.post("/api/measure", {"n": 5}).json == {"drawn": 5}
        live = wait_for(lambda: (now := server.get("/api/live").json)["undoable"] and now)
        assert not live["known_error"]["is_measured"], "nobody has labelled the sample"
        items = server.post("/api/take", {"annotator": "ann", "n": 5}).json["items"]
        assert {item["why"]["strategy"] for item in items} == {"audit"}  # drawn at random
        for item in items:
            server.label("ann", item["position"])
        found = wait_for(lambda: (live := server.get("/api/live").json)["labelled"] == 15 and live)
        assert "of 5 random items among the 30 that had no label at the" in found["certificate"]
        assert found["advice"]["is_reached"]
        known = found["known_error"]
        assert (known["is_measured"], known["by_sample"], known["n_labels"]) == (True, True, 10)
        assert [point["n_labels"] for point in found["history"]] == [10], "no flat tail"
        assert (found["is_measuring"], found["measurable"]) == (False, 25)
        assert server.post("/api/measure", {"n": 5}).json == {"drawn": 5}, "of a stored model"
        again = server.post("/api/measure", {"n": 5})
        assert again.status == 422
        assert "A measurement of 5 items is not complete yet" in again.json["error"]["message"]


def test_the_worker_fills_the_queue_and_makes_report_predictions_and_map(tmp_path):
    folder = make_project(tmp_path / "p", n_items=30, queued=0, n_samples=40, strategy="margin")
    with serving(folder) as server:
        first = wait_for(
            lambda: server.post("/api/take", {"annotator": "ann", "n": 5}).json["items"]
        )
        assert {item["why"]["strategy"] for item in first} == {"k-means"}, (
            "before the model is there"
        )
        for item in first:
            label = "ham" if item["position"] % 2 else "spam"
            stored = server.label("ann", item["position"], label)
            assert stored.status == 200, stored.body
        wait_for(lambda: server.get("/api/live").json["report"])
        result = wait_for(lambda: (m := server.get("/api/map").json)["points"]["position"] and m)
        assert (result["n_total"], len(result["points"]["x"]), len(result["explained"])) == (
            30,
            30,
            2,
        )
        assert sorted(result["points"]["position"]) == list(range(30))
        assert max(map(abs, result["points"]["x"])) <= 1.0
        wait_for(lambda: 3 in server.get("/api/map").json["points"]["state"])
        item = wait_for(lambda: server.get(f"/api/items/{first[0]['position']}").json["predicted"])
        assert abs(sum(item.values()) - 1) < 0.01
        with Store.open(folder, read_only=True) as store:
            wait_for(lambda: list(store.unopened()) == ["margin"])
        taken = server.post("/api/take", {"annotator": "bob", "n": 1})
        assert taken.status == 200, taken.body
        (chosen,) = taken.json["items"]
        assert chosen["why"]["strategy"] == "margin"
        assert "with a score of" in chosen["why"]["details"]


def test_lists_are_filtered_searched_and_paged(server):
    for position, label in ((1, "ham"), (2, "spam"), (3, "ham")):
        server.label("ann", position, label)
    server.label("bob", 3, "spam")
    server.skip("bob", 4, "unsure", request="p4")
    server.skip("bob", 5, request="p5")
    out = server.take("cyd")

    def positions(query):
        result = server.get(f"/api/items?{query}").json
        return [row["position"] for row in result["items"]], result["next"], result["total"]

    assert positions("state=labelled") == ([1, 2, 3], None, 3)
    assert positions("state=labelled&label=ham") == ([1, 3], None, 2)
    assert positions("state=all&annotator=bob") == ([3, 4, 5], None, 3)
    assert positions("state=unsure") == ([4], None, 1)
    assert positions("state=skipped") == ([5], None, 1)
    assert positions("state=disagree") == ([3], None, 1)
    assert positions("state=out") == (out, None, 1)
    assert positions("state=all&limit=2") == ([0, 1], 1, 40)
    assert positions("state=all&limit=2&after=1") == ([2, 3], 3, 40)
    assert positions("state=unlabelled&limit=3&after=0") == ([4, 5, 6], 6, 37)
    assert positions("q=NUMBER%2017") == ([17], None, None)
    assert positions("q=m03&limit=100")[0] == list(range(30, 40)), "ids are searched as well"
    assert positions("after=39") == ([], None, 40)
    whole = server.get("/api/items/3").json
    assert (whole["label"], whole["answers"], whole["content"]) == (
        "ham",
        {"ann": "ham", "bob": "spam"},
        {"text": "message number 3"},
    )
    assert server.get("/api/items/40").status == 404
    for bad in ("state=some", "limit=0", "limit=101", "after=-2", "after=x"):
        assert server.get(f"/api/items?{bad}").status == 422


def test_script_in_data_comes_back_as_data(tmp_path):
    content = [{"text": SCRIPT, SCRIPT: f"{n}"} for n in range(12)]
    ids = [f"{SCRIPT}{n}" for n in range(12)]
    folder = make_project(
        tmp_path / "<img src=x onerror=alert(1)>",
        content=content,
        ids=ids,
        classes=[SCRIPT, "b"],
        queued=9,
    )
    with page(folder) as server:
        server.label(SCRIPT, 0, SCRIPT, comment=SCRIPT)
        paths = (
            "/api/project",
            "/api/items",
            "/api/items/0",
            "/api/live",
            "/api/export?format=jsonl",
        )
        for answer in [server.post("/api/take", {"annotator": SCRIPT}), *map(server.get, paths)]:
            assert answer.status == 200
            assert answer.headers["content-type"].startswith(
                ("application/json", "application/x-ndjson")
            )
            assert answer.headers["x-content-type-options"] == "nosniff"
        result = server.get("/api/items/0").json
        assert (result["id"], result["content"]["text"], result["history"][0]["comment"]) == (
            f"{SCRIPT}0",
            SCRIPT,
            SCRIPT,
        )
        name = server.get("/api/export").headers["content-disposition"]
        assert name == 'attachment; filename="img-src-x-onerror-alert-1-labels.csv"'


def test_exports_hold_all_labels_and_no_formula_runs_in_a_spreadsheet(tmp_path):
    dangerous = [
        "=1+1",
        "+1",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        '=HYPERLINK("http://x")',
        "=cmd|' /C calc'!A0",
    ]
    folder = make_project(
        tmp_path / "p",
        content=[{"text": text} for text in dangerous],
        classes=["=a", "b"],
        queued=8,
    )
    with page(folder) as server:
        server.label("=ann", 0, "=a")
        server.label("bob", 1, "b")
        answer = server.get("/api/export?format=csv")
        assert answer.headers["content-type"].startswith("text/csv")
        rows = list(csv.reader(io.StringIO(answer.body.decode(), newline="")))
        assert len(rows) == 1 + len(dangerous)
        begins = tuple(
            cell
            for row in rows
            for cell in row
            if cell.startswith(("=", "+", "-", "@", "\t", "\r"))
        )
        assert set(begins) <= {"+1"}, "a plain number is not a formula"
        lines = [
            json.loads(line)
            for line in server.get("/api/export?format=jsonl&labelled_only=true").body.splitlines()
        ]
        assert [(line["text"], line["label"], line["annotators"]) for line in lines] == [
            ("=1+1", "=a", "=ann"),
            ("+1", "b", "bob"),
        ]
        assert server.get("/api/export?format=parquet").body.startswith(b"PAR1")
        assert server.get("/api/export?format=xlsx").status == 422


PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 50


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    root = tmp_path_factory.mktemp("pictures")
    images = root / "images"
    (images / "deep").mkdir(parents=True)
    (root / "secret.png").write_bytes(PNG + b"secret")
    (images / "deep" / "a b.png").write_bytes(PNG)
    (images / "é.jpg").write_bytes(b"\xff\xd8\xff\xe0" + b"0" * 20)
    (images / "animated.gif").write_bytes(b"GIF89a" + b"0" * 20)
    (images / "x.webp").write_bytes(b"RIFF0000WEBP" + b"0" * 20)
    (images / "x.bmp").write_bytes(b"BM" + b"0" * 20)
    (images / "page.png").write_bytes(b"<html><script>alert(1)</script>")
    (images / "drawing.svg").write_bytes(
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    )
    (images / "out.png").symlink_to(root / "secret.png")
    (images / "inside.png").symlink_to(images / "deep" / "a b.png")
    (images / "outside").symlink_to(root)
    os.mkfifo(images / "pipe.png")
    names = ["deep/a b.png", "é.jpg", "animated.gif", "x.webp", "x.bmp", "inside.png"]
    wrong = ["page.png", "drawing.svg"]
    missing = [
        "out.png",
        "outside/secret.png",
        "../secret.png",
        str(root / "secret.png"),
        "deep/../../secret.png",
    ]
    missing += [
        "gone.png",
        "pipe.png",
        "deep",
        "",
        "a\x00.png",
        "x" * 5000,
        "./../secret.png",
        "..",
        "/etc/passwd",
    ]
    content = [{"image": name} for name in names + wrong + missing]
    folder = make_project(
        root / "p", content=content, queued=9, encoder="shapes", media=str(images)
    )
    with page(folder) as server:
        yield server, names, wrong, missing


def test_images_are_shown_as_what_they_are(pictures):
    server, names, _, _ = pictures
    assert server.get("/api/project").json["kind"] == "image"
    assert (
        server.post("/api/take", {"annotator": "ann"}).json["items"][0]["image"] == "/api/media/0"
    )
    kinds = []
    for position in range(len(names)):
        answer = server.get(f"/api/media/{position}")
        assert (answer.status, answer.headers["x-content-type-options"]) == (200, "nosniff")
        kinds.append(answer.headers["content-type"].removeprefix("image/"))
    assert kinds == ["png", "jpeg", "gif", "webp", "bmp", "png"]


def test_what_is_not_an_image_or_lies_elsewhere_is_not_served(pictures):
    server, names, wrong, missing = pictures
    for position, name in enumerate(names + wrong + missing):
        if name in wrong:
            assert server.get(f"/api/media/{position}").status == 415, name
        if name in missing:
            answer = server.get(f"/api/media/{position}")
            assert answer.status == 404, name
            assert b"secret" not in answer.body


def test_a_row_of_many_columns_is_listed_with_their_names(tmp_path):
    rows = [{"age": 44, "class": "Eco", "wifi": None, "seat": 3}]
    columns = {"encoded_columns": list(rows[0])}
    with Store.open(make_project(tmp_path / "p", content=rows, queued=0, **columns)) as store:
        assert show_item(store, 0).snippet == "age: 44 · class: Eco · seat: 3"


def test_readers_who_do_not_read_keep_no_image_in_memory(tmp_path):
    """Fifteen clients ask for 20 MB and leave it unread; the server's memory does not grow."""
    (tmp_path / "large.png").write_bytes(PNG + b"0" * 20_000_000)
    folder = make_project(
        tmp_path / "p", content=[{"image": "large.png"}], queued=1, encoder="shapes",
        media=str(tmp_path),
    )  # fmt: skip
    with serving(folder, before=WITHOUT_WORKER) as server, ExitStack() as held:
        whole = server.get("/api/media/0")
        assert len(whole.body) == len(PNG) + 20_000_000
        assert whole.headers["content-type"] == "image/png"
        memory = memory_of(server.process.pid)
        for _ in range(15):
            link = held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = f"GET /api/media/0 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            link.sendall(f"{head}Authorization: Bearer {server.token}\r\n\r\n".encode())
            assert link.recv(4096).startswith(b"HTTP/1.1 200")
        assert server.get("/api/me").status == 200
        assert memory_of(server.process.pid) - memory < 60e6  # one image three times


def memory_of(process):
    """Bytes that a process has in memory."""
    (line,) = [
        line for line in Path(f"/proc/{process}/status").read_text().splitlines() if "VmRSS" in line
    ]
    return 1024 * int(line.split()[1])

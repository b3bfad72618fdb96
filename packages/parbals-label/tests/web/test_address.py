"""Behind a proxy: what the server is called, and whom it believes."""

import shutil

import pytest
from page_server import make_project, page
from parbals.errors import InputError
from parbals_label.store.store import Store
from parbals_label.web.address import PageAddress
from parbals_label.web.page_files import is_copied, page_token

PUBLIC = "https://label.example"
HOST = {"Host": "label.example"}


@pytest.fixture
def folder(tmp_path):
    folder = make_project(tmp_path / "mail")
    with Store.open(folder) as store:
        store.ada = store.invite("Ada")
        store.invite("Olga", "owner")
        (tmp_path / "ada").write_text(store.ada)
    return folder


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"public": "label.example"}, "write it as https://label.example"),
        ({"public": "ftp://label.example"}, "write it as"),
        ({"public": "https://label.example/path"}, "without a path"),
        ({"public": "https://label.example?x=1"}, "without a path"),
        ({"public": "https://me:secret@label.example"}, "write it as"),
        ({"public": "https://label.example:x"}, "write it as"),
        ({"user_header": "X-User"}, "--public-url"),
        ({"public": PUBLIC, "user_header": "X User"}, "not the name of an HTTP header"),
        ({"public": PUBLIC, "user_header": ""}, "not the name of an HTTP header"),
        ({"proxies": ("proxy.example",)}, "10.0.0.5"),
        ({"proxies": ("10.0.0.1/8",)}, "10.0.0.5"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        PageAddress(**options)


def test_addresses_for_people():
    assert PageAddress(port=1).link("t") == "http://127.0.0.1:1/?token=t"
    assert PageAddress(host="::1", port=1).link("t") == "http://[::1]:1/?token=t"
    assert (
        PageAddress(port=1, public="HTTPS://Label.Example:443/").link("t") == f"{PUBLIC}/?token=t"
    )
    assert PageAddress(public="http://label.example:8443").origin == "http://label.example:8443"


def test_behind_a_proxy_the_page_is_called_by_its_public_name(tmp_path, folder):
    link = (tmp_path / "ada").read_text()
    with page(folder, public=PUBLIC) as server:
        assert server.link == f"{PUBLIC}/?token={server.token}"
        door = server.get(f"/?token={link}", token=False, headers=HOST)
        cookie = door.headers["set-cookie"]
        assert cookie.startswith(f"__Host-parbals-{server.port}=")
        assert "; Secure" in cookie
        key = door.body.split(b"data-key=")[1].split(b">")[0].decode()
        session = {**HOST, "Cookie": cookie.split(";")[0], "X-Parbals-Key": key}
        take = {"annotator": "Ada", "n": 1}
        statuses = {
            "https://label.example": 200,
            "http://label.example": 403,
            "https://label.example:443": 403,
            "https://evil.example": 403,
            "https://label.example.evil.example": 403,
            "null": 403,
        }
        for origin, status in statuses.items():
            sent = server.post(
                "/api/take", take, token=False, headers={**session, "Origin": origin}
            )
            assert sent.status == status, origin
        for host in ("label.example:443", "label.example:80", "evil.example", "xlabel.example"):
            assert server.get("/api/me", headers={"Host": host}).status == 421, host
        # The session was begun at the public name, and is no good at another.
        near = {**session, "Host": f"127.0.0.1:{server.port}"}
        near["Cookie"] = near["Cookie"].removeprefix("__Host-")
        assert server.get("/api/me", token=False, headers=near).status == 401
        assert server.get("/api/me").status == 200  # this machine still reaches it by its address


def test_the_proxys_word_for_who_has_logged_in(folder):
    with page(folder, public=PUBLIC, user_header="X-Login") as server:
        own = {**HOST, "Origin": PUBLIC}

        def me(**headers):
            return server.get("/api/me", token=False, headers={**HOST, **headers})

        assert me(**{"X-Login": "ada"}).json == {"name": "Ada", "role": "annotator", "spelt": None}
        assert me(**{"X-Login": " ＡDA".encode()}).json["name"] == "Ada"
        assert me(**{"X-Login": "olga"}).json["role"] == "owner"
        # The proxy's own password, if it has passed it on, is no matter here.
        assert me(**{"X-Login": "ada", "Authorization": "Basic eA=="}).status == 200
        stranger = me(**{"X-Login": "eve"})
        assert (stranger.status, stranger.error) == (403, "person")
        door = server.get("/", token=False, headers={**HOST, "X-Login": "<b>eve</b>"})
        assert door.status == 403
        assert b"nobody has invited you" in door.body
        assert b"<b>eve" not in door.body
        for nobody in ({}, {"X-Login": ""}, {"X-User": "ada"}):
            assert me(**nobody).status == 401
        # What a browser sends by itself changes something only from the page.
        take = {"annotator": "Ada", "n": 1}
        logged_in = {**HOST, "X-Login": "ada"}
        assert server.post("/api/take", take, token=False, headers=logged_in).status == 403
        assert (
            server.post("/api/take", take, token=False, headers={**own, **logged_in}).status == 200
        )
        twice = "GET /api/me HTTP/1.1\r\nHost: label.example\r\nX-Login: ada\r\nX-Login: olga\r\n"
        assert b" 400 " in server.raw(f"{twice}Connection: close\r\n\r\n".encode())[:20]
        with Store.open(folder) as store:
            store.revoke("ada")
        server.guard.door.clear_cache()
        assert me(**{"X-Login": "ada"}).status == 403


def test_the_header_is_believed_from_the_proxy_alone(folder):
    with page(folder, public=PUBLIC, user_header="X-Login", proxies=("10.9.8.0/24",)) as server:
        for method, path in (("GET", "/"), ("GET", "/api/me"), ("GET", "/api/export")):
            refused = server.call(method, path, headers={**HOST, "X-Login": "olga"}, token=False)
            assert (refused.status, refused.error) == (403, "header")
    with page(folder) as server:  # without a public address there is no proxy
        refused = server.get("/api/me", token=False, headers={"X-Login": "olga"})
        assert refused.status == 401


def test_the_log_has_the_address_that_the_proxy_saw(folder):
    def origin(server, forwarded, host):
        headers = {"Host": host, "X-Forwarded-For": forwarded}
        settings = {"guidelines": f"{forwarded} {host} {server.port}"}
        assert server.call("PATCH", "/api/settings", settings, headers).status == 200
        with Store.open(folder, read_only=True) as store:
            return store.events()[-1].origin

    with page(folder, public=PUBLIC) as server:
        # A proxy adds the address it saw at the end; what stands before is anybody's word.
        assert origin(server, "1.2.3.4, 203.0.113.9", "label.example") == "203.0.113.9"
        assert origin(server, "2001:db8::1", "label.example") == "2001:db8::1"
        assert origin(server, "<script>", "label.example") == "127.0.0.1"
    with page(folder) as server:
        assert origin(server, "203.0.113.9", f"127.0.0.1:{server.port}") == "127.0.0.1"


def test_the_link_of_a_folder_that_was_copied_is_a_new_one(tmp_path):
    """Who sent it may know the old one."""
    (tmp_path / "mine").mkdir()
    token = page_token(tmp_path / "mine")
    assert page_token(tmp_path / "mine") == token
    assert not is_copied(tmp_path / "mine")
    shutil.copytree(tmp_path / "mine", tmp_path / "sent")
    assert is_copied(tmp_path / "sent")
    assert page_token(tmp_path / "sent") != token
    assert not is_copied(tmp_path / "sent")
    (tmp_path / "mine").rename(tmp_path / "moved")
    assert page_token(tmp_path / "moved") == token

"""A real HTTP server for one test: a function answers every request, and all of them are kept."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace


@contextmanager
def serving(answer):
    """``answer(handler, request, number)`` writes the response; ``request`` has path, headers, body
    and JSON lines."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            lines = [json.loads(line) for line in body.decode().splitlines()]
            request = SimpleNamespace(
                path=self.path, headers=dict(self.headers), body=body, lines=lines
            )
            seen.append(request)
            self.close_connection = True
            answer(self, request, len(seen))

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_address[1]}", seen=seen)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def respond(handler, status=200, body=b"", **headers):
    """A whole response; a header given as retry_after is sent as Retry-After."""
    handler.send_response(status)
    for name, value in {"content_length": len(body), **headers}.items():
        handler.send_header(name.replace("_", "-").title(), str(value))
    handler.end_headers()
    handler.wfile.write(body)

"""A server of bytes: it answers every request with what a test says, however wrong that is."""

import socket
import threading
import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace


def response(body, *, status=b"HTTP/1.1 200 OK", headers=(), length=None):
    """The bytes of a response."""
    lines = [status, *(b"%s: %s" % pair for pair in headers)]
    if length is not None or body:
        lines.append(b"Content-Length: %d" % (len(body) if length is None else length))
    return b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body


@contextmanager
def raw_server(answer):
    """Serve until the block ends: its ``url``, and the number of requests, ``n_seen``.

    ``answer`` returns a list of pieces to send; a number is a pause in seconds.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    served = SimpleNamespace(url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1", n_seen=0)

    def converse(connection):
        with connection, suppress(OSError):
            connection.settimeout(10.0)
            data = b""
            while b"\r\n\r\n" not in data:
                chunk = connection.recv(1 << 16)
                if not chunk:
                    return
                data += chunk
            head, _, body = data.partition(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            while len(body) < length:
                body += connection.recv(1 << 16)
            served.n_seen += 1
            for piece in answer(head):
                if isinstance(piece, float):
                    time.sleep(piece)
                else:
                    connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)  # closing earlier could cut what is on its way

    def listen():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=converse, args=[connection], daemon=True).start()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()

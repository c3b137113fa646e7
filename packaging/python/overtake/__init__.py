"""Overtake, an in-memory database that speaks PostgreSQL's protocol, for tests and experiments.

    import overtake
    with overtake.serve() as dsn:
        connection = psycopg.connect(dsn)

pytest has the fixture `overtake_dsn`: a server of its own for each test.
"""

import contextlib
import os
import re
import select
import subprocess
import tempfile
import time

__all__ = ["Error", "binary", "serve"]

_ADDRESS = re.compile(rb'psql "(postgresql://[^"]+)"')


class Error(RuntimeError):
    """The server did not start; the message has its log."""


def binary():
    """Path of the server's binary, which is part of this package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "overtake")
    if not os.access(path, os.X_OK):
        # Some installers drop the permission.
        os.chmod(path, 0o755)
    return path


@contextlib.contextmanager
def serve(*arguments, settings=None, timeout=30.0, grace=10.0):
    """Starts a server on a free port of 127.0.0.1, waits until clients can connect, and stops it in the end.

    `settings` are Overtake's, by name: {"max_connections": 10, "overtake.mpl": "auto"}. `arguments` are further ones of
    `overtake serve`: "--upstream", "postgres://...". The value is the DSN of the server, a postgresql:// URL.
    Raises Error if the server does not listen within `timeout` seconds; it is killed if it does not end within `grace`.
    """
    command = [binary(), "serve", "--listen", "127.0.0.1:0"]
    # Beside programs that keep all processors busy, as tests do, long queries in the idle class would stand still.
    for name, value in {"overtake.analytics_threads": "ordinary", **(settings or {})}.items():
        command += ["--set", f"{name}={value}"]
    command += arguments
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        try:
            yield _address(process, log, timeout)
        finally:
            process.terminate()
            try:
                process.wait(grace)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def _address(process, log, timeout):
    """URL that a server prints once it listens."""
    end = time.monotonic() + timeout
    text = b""
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
            raise Error(f"overtake did not listen within {timeout} s: {_tail(log)}")
        part = os.read(process.stdout.fileno(), 4096)
        if not part:
            raise Error(f"overtake ended before it listened: {_tail(log)}")
        text += part
        found = _ADDRESS.search(text)
        if found:
            return found.group(1).decode()


def _tail(log):
    log.seek(0)
    return log.read()[-2000:].decode(errors="replace").strip()

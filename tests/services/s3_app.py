"""The S3 server with faults, python -m tests.services.s3_app PORT [STORE].

It keeps objects in memory, or passes requests on to a store, whose URL it is given. A store gets as
many at once as there are; the server itself answers one after the other.

It can be told (``POST /_faults``) to fail as networks and stores do: to lose requests and answers,
to cut answers off or damage them, to do a request twice, to be slow, to ask for less load, to lack
features, to give certain requests an answer, to lose the answer of one request, and to hold one
back while a rival is served. ``POST /_requests`` has the number of requests since the last call, by
method and key without its numbers; of listings by their prefix; and of ``expired`` logins. ``POST
/_expire`` names the access keys and session tokens that are refused from then on, as Amazon S3
refuses a login that has expired.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import parse_qs, urlsplit

from hybrid_extensions.servers.s3_app import S3App, serve

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

SLOW_DOWN = (
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
LACKING = (
    b"<Error><Code>NotImplemented</Code><Message>A feature that is not there.</Message></Error>"
)
EXPIRED = (
    b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
)
HOLD_S = 60.0
_OF_CONNECTION = ("HTTP_CONNECTION", "HTTP_EXPECT", "HTTP_TRANSFER_ENCODING")
_OF_SERVER = ("connection", "content-length", "date", "server", "transfer-encoding")
_KEY = re.compile(r"Credential=([^/]+)/")
_NUMBERS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9]+")


class Server:
    """The WSGI application.

    Args:
        store: What answers the requests that reach it.
    """

    def __init__(self, store: WSGIApplication) -> None:
        self._store = store
        self._counts: Counter[str] = Counter()
        self._expired: frozenset[str] = frozenset()
        self._faults: dict[str, Any] = {}
        self._chance = random.Random()
        self._held = threading.Event()
        self._free = threading.Event()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        body = self._body(environ)
        if path.startswith("/_"):
            answer = json.dumps(self._told(path, body)).encode()
            start_response("200 OK", [("Content-Length", str(len(answer)))])
            return [answer]
        if "list-type" in environ["QUERY_STRING"]:
            (path,), method = parse_qs(environ["QUERY_STRING"]).get("prefix", [""]), "LIST"
        self._counts[f"{method} {_NUMBERS.sub('*', path)}"] += 1
        if self._is_expired(environ):
            self._counts["expired"] += 1
            # As with every error, the answer to a HEAD has no body, and so no code.
            answer = b"" if method == "HEAD" else EXPIRED
            head = [("Content-Type", "application/xml"), ("Content-Length", str(len(answer)))]
            start_response("400 Bad Request", head)
            return [answer]
        return self._served(environ, start_response, body)

    def _is_expired(self, environ: Any) -> bool:
        known = _KEY.search(environ.get("HTTP_AUTHORIZATION", ""))
        login = {known and known[1], environ.get("HTTP_X_AMZ_SECURITY_TOKEN")}
        return not self._expired.isdisjoint(login)

    def _served(self, environ: Any, start_response: Any, body: bytes) -> Iterable[bytes]:
        time.sleep(self._faults.get("delay_s", 0.0))
        pattern = self._faults.get("hold")
        place = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        if pattern and not self._held.is_set() and re.search(pattern, place):
            self._held.set()
            self._free.wait(HOLD_S)
        given = self._faults.get("answer to")
        if given and re.search(given["pattern"], place):
            told = f"<Error><Code>{given['code']}</Code></Error>".encode()
            start_response(given["status"], [("Content-Length", str(len(told)))])
            return [told]
        what = self._lost_once(place) or self._drawn()
        if what == "refuse":
            start_response("503 Slow Down", [("Content-Length", str(len(SLOW_DOWN)))])
            return [SLOW_DOWN]
        if what == "lack":
            start_response("501 Not Implemented", [("Content-Length", str(len(LACKING)))])
            return [LACKING]
        if what == "lose request":
            self._hang_up(environ)
        if what == "repeat":
            self._store(self._again(environ, body), lambda *_: io.BytesIO().write)
        answer = self._store(self._again(environ, body), start_response)
        if what == "lose answer":
            self._hang_up(environ)
        if what == "damage answer" and environ["REQUEST_METHOD"] == "GET":
            return [bytes(byte ^ 1 for byte in part) for part in answer]
        # With the length in its header, and nothing of that length.
        return [] if what == "cut answer" else answer

    def _lost_once(self, place: str) -> str:
        """What happens to the first request that matches ``lose answer of``: then never again."""
        pattern = self._faults.get("lose answer of")
        if pattern is None or not re.search(pattern, place):
            return ""
        del self._faults["lose answer of"]
        return "lose answer"

    def _drawn(self) -> str:
        number = self._chance.random()
        for name, share in self._faults.get("shares", {}).items():
            number -= share
            if number < 0:
                return str(name)
        return ""

    def _told(self, path: str, body: bytes) -> Any:
        if path == "/_requests":
            counts, self._counts = self._counts, Counter()
            return counts
        if path == "/_held":
            return self._held.is_set()
        if path == "/_free":
            self._free.set()
            return None
        if path == "/_expire":
            self._expired = frozenset(json.loads(body)["logins"])
            return None
        self._faults = json.loads(body)
        self._chance = random.Random(self._faults.get("seed"))
        self._held.clear()
        self._free.clear()
        return None

    @staticmethod
    def _hang_up(environ: Any) -> NoReturn:
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        raise ConnectionResetError

    @staticmethod
    def _again(environ: Any, body: bytes) -> Any:
        again = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        again.pop("HTTP_TRANSFER_ENCODING", None)
        return again

    @staticmethod
    def _body(environ: Any) -> bytes:
        source = environ["wsgi.input"]
        if environ.get("wsgi.input_terminated"):
            return bytes(source.read())
        return bytes(source.read(int(environ.get("CONTENT_LENGTH") or 0)))


class Forward:
    """The WSGI application that passes requests on, as they were signed: path, host and body.

    Args:
        url: Address of the store.
    """

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        method, body = environ["REQUEST_METHOD"], environ["wsgi.input"].read()
        headers = {
            name.removeprefix("HTTP_").replace("_", "-"): value
            for name, value in environ.items()
            if (name.startswith("HTTP_") and name not in _OF_CONNECTION) or name == "CONTENT_TYPE"
        }
        with contextlib.closing(HTTPConnection(self._address, timeout=HOLD_S)) as store:
            store.request(method, environ["RAW_URI"], body, headers)
            answer = store.getresponse()
            data = answer.read()
        told = [each for each in answer.getheaders() if each[0].lower() not in _OF_SERVER]
        length = answer.headers["Content-Length"] if method == "HEAD" else str(len(data))
        start_response(f"{answer.status} {answer.reason}", [*told, ("Content-Length", length)])
        return [data]


if __name__ == "__main__":
    (_, port, *store) = sys.argv
    serve(Server(Forward(*store) if store else S3App()), int(port))

"""A stand-in for Google Cloud Storage: the part of its XML API that obstore uses, in memory.

It is written from Google's pages (https://cloud.google.com/storage/docs/xml-api/overview), because
no server for tests takes conditional writes by this API.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_MATCH = "x-goog-if-generation-match"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: dict[str, tuple[bytes, int]]
    lock: threading.Lock
    written: int

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if "list-type" in url.query:
            asked = parse_qs(url.query)
            self._list(asked.get("prefix", [""])[0], "delimiter" in asked)
        elif (found := self.objects.get(self._key())) is None:
            self._answer(HTTPStatus.NOT_FOUND)
        else:
            data, status, headers = found[0], HTTPStatus.OK, {}
            if (part := self.headers.get("range")) is not None:
                start, _, end = part.removeprefix("bytes=").partition("-")
                headers["content-range"] = f"bytes {start}-{end}/{len(data)}"
                data, status = data[int(start) : int(end) + 1], HTTPStatus.PARTIAL_CONTENT
            self._answer(status, data, generation=found[1], **headers)

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        key, handler = self._key(), type(self)
        with self.lock:
            if (source := self.headers.get("x-goog-copy-source")) is not None:
                name = unquote(source).lstrip("/").partition("/")[2]
                if name not in self.objects:
                    return self._answer(HTTPStatus.NOT_FOUND)
                data = self.objects[name][0]
            there = self.objects.get(key, (b"", 0))[1]
            if (wanted := self.headers.get(_MATCH)) is not None and int(wanted) != there:
                return self._answer(HTTPStatus.PRECONDITION_FAILED)
            handler.written += 1
            self.objects[key] = (data, handler.written)
            return self._answer(HTTPStatus.OK, generation=handler.written)

    def do_DELETE(self) -> None:
        is_there = self.objects.pop(self._key(), None) is not None
        self._answer(HTTPStatus.NO_CONTENT if is_there else HTTPStatus.NOT_FOUND)

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

    def _list(self, prefix: str, is_flat: bool) -> None:
        parts, folders = [], set()
        for key, (data, generation) in sorted(self.objects.items()):
            below = key.removeprefix(prefix)
            if not key.startswith(prefix):
                continue
            if is_flat and "/" in below:
                folders.add(prefix + below.partition("/")[0] + "/")
                continue
            parts.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size><ETag>{generation}"
                "</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
        named = (f"<Prefix>{escape(each)}</Prefix>" for each in sorted(folders))
        parts += [f"<CommonPrefixes>{each}</CommonPrefixes>" for each in named]
        body = f"<ListBucketResult>{''.join(parts)}</ListBucketResult>"
        self._answer(HTTPStatus.OK, body.encode())

    def _answer(
        self, status: HTTPStatus, data: bytes = b"", *, generation: int = 0, **headers: str
    ) -> None:
        self.send_response(status)
        known = {"etag": f'"{generation}"', "x-goog-generation": str(generation)}
        known |= {"last-modified": formatdate(usegmt=True), "content-length": str(len(data))}
        for name, value in {**known, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def gcs_server() -> Iterator[dict[str, str]]:
    """Variables of the environment by which obstore finds the server, which has any bucket."""
    state = {"objects": {}, "lock": threading.Lock(), "written": 0}
    handler = type("Handler", (_Handler,), state)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        key = {"client_email": "", "private_key": "", "private_key_id": ""}
        login = json.dumps({**key, "gcs_base_url": endpoint, "disable_oauth": True})
        yield {"GOOGLE_BASE_URL": endpoint, "GOOGLE_SERVICE_ACCOUNT_KEY": login}
        server.shutdown()

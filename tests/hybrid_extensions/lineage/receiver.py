"""A server that takes OpenLineage events, and checks each against the JSON Schema of the spec.

The schemas in `spec` are those that https://openlineage.io/spec/ publishes (Apache License 2.0).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

_SPEC = Path(__file__).with_name("spec")


class Receiver:
    """Events that were received, in their order.

    Attributes:
        url: Address of the server.
        events: The events.
        logins: What the requests had as `Authorization`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.events: list[dict[str, Any]] = []
        self.logins: set[str | None] = set()

    @property
    def told(self) -> list[tuple[str, str]]:
        """Job and state of each event."""
        return [(event["job"]["name"], event["eventType"]) for event in self.events]

    def last(self, job: str, state: str) -> dict[str, Any]:
        """The last event of a job in a state."""
        return next(
            event
            for event in reversed(self.events)
            if (event["job"]["name"], event["eventType"]) == (job, state)
        )

    def require_valid(self) -> None:
        """Each event, and each facet in it, is as the spec wants it."""
        files = [json.loads(path.read_text()) for path in sorted(_SPEC.rglob("*.json"))]
        registry: Registry[Any] = Registry().with_resources(
            (file["$id"], Resource.from_contents(file)) for file in files
        )
        known = {name: f"{file['$id']}#/$defs/{name}" for file in files for name in file["$defs"]}
        for event in self.events:
            _validator(registry, known["RunEvent"]).validate(event)
            for facet in _facets(event):
                # Versions of a facet differ in what they may have besides.
                name = facet["_schemaURL"].rpartition("/")[2]
                _validator(registry, known[name]).validate(facet)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run the server on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.events.append(json.loads(body))
            receiver.logins.add(self.headers["Authorization"])
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _validator(registry: Registry[Any], url: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": url}, registry=registry, format_checker=FormatChecker())


def _facets(event: Any) -> Iterator[dict[str, Any]]:
    if isinstance(event, dict):
        if "_schemaURL" in event:
            yield event
        for each in event.values():
            yield from _facets(each)
    elif isinstance(event, list):
        for each in event:
            yield from _facets(each)

"""Protobuf descriptors, wire formats and a schema registry for tests of record values."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import Message

from sources.config.source.kafka_source import KafkaSource
from sources.decoding.row_decoder import RowDecoder
from tests.extensions import skip_without

FIELD = descriptor_pb2.FieldDescriptorProto
MESSAGE = "shop.Order"
# Debezium's `source` block of a change.
ORIGIN = {
    "connector": "postgresql",
    "ts_ms": 1_704_067_200_123,
    "snapshot": "false",
    "db": "shop",
    "sequence": '["1000","1040"]',
    "schema": "public",
    "table": "orders",
    "txId": 771,
    "lsn": 1040,
    "xmin": None,
}


class RegistryServer(ThreadingHTTPServer):
    """HTTP server with the part of a schema registry's API that its client uses.

    Attributes:
        asked: Paths of all requests.
        login: Required ``user:password``, if any.
        broken: Whether every request fails with status 500.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.login: str | None = None
        self.broken = False

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def register(self, schema: dict[str, Any], subject: str = "s", **more: Any) -> int:
        """Add a schema, and return its id."""
        self.schemas.append({"schema": json.dumps(schema), **more})
        self.subjects.setdefault(subject, []).append(len(self.schemas))
        return len(self.schemas)

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, Any]]:
        """Return status and document of a request."""
        self.asked.append(path)
        if self.broken:
            return 500, {"error_code": 50001, "message": "the store is down"}
        if self.login is not None:
            wanted = "Basic " + base64.b64encode(self.login.encode()).decode()
            if authorization != wanted:
                return 401, {"error_code": 401, "message": "Unauthorized"}
        match path.partition("?")[0].strip("/").split("/"):
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, self.schemas[int(number) - 1]
            case ["subjects", subject, "versions", number] if subject in self.subjects:
                schema_id = self.subjects[subject][int(number) - 1]
                found = {"subject": subject, "version": int(number), "id": schema_id}
                return 200, {**found, **self.schemas[schema_id - 1]}
        return 404, {"error_code": 40403, "message": "not found"}


class _Handler(BaseHTTPRequestHandler):
    server: RegistryServer

    def do_GET(self) -> None:
        status, document = self.server.answer(self.path, self.headers.get("Authorization"))
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def registry() -> Iterator[RegistryServer]:
    """Run a registry in a thread."""
    with RegistryServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def changes_source(schema: dict[str, str], **more: Any) -> KafkaSource:
    """Declare a source of the changes of ``public.orders``."""
    skip_without("cdc")
    declared = {
        "type": "kafka",
        "name": "changes",
        "topic": "shop.public.orders",
        "format": "debezium",
        "table": "public.orders",
        "schema": schema,
        **more,
    }
    return KafkaSource.model_validate(declared)


def decoded(declared: KafkaSource, *values: bytes) -> list[dict[str, Any]]:
    """Decode values to rows with one decoder."""
    columns = declared.value_schema(declared.current(declared.declared_columns or {}))
    decoder = RowDecoder(declared.reader(), columns)
    return [dict(zip(columns.names, decoder.decode(value), strict=True)) for value in values]


def framed(schema_id: int, data: bytes, path: bytes = b"") -> bytes:
    """Put a value into Confluent's wire format."""
    return b"\0" + schema_id.to_bytes(4) + path + data


def descriptors() -> bytes:
    """Return a ``FileDescriptorSet`` whose second message is ``shop.Order``."""
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto",
        package="shop",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"],
    )
    file.message_type.add(name="Other").field.add(
        name="text", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL
    )
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=3)
    order = file.message_type.add(name="Order")

    def field(name: str, number: int, kind: int, type_name: str | None = None, **more: Any) -> Any:
        label = more.pop("label", FIELD.LABEL_OPTIONAL)
        return order.field.add(
            name=name, number=number, type=kind, type_name=type_name, label=label, **more
        )

    field("id", 1, FIELD.TYPE_INT64)
    field("at", 2, FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    order.oneof_decl.add(name="_v")
    field("v", 3, FIELD.TYPE_DOUBLE, oneof_index=0, proto3_optional=True)
    field("state", 4, FIELD.TYPE_ENUM, ".shop.State")
    field("note", 5, FIELD.TYPE_MESSAGE, ".google.protobuf.StringValue")
    field("tags", 6, FIELD.TYPE_STRING, label=FIELD.LABEL_REPEATED)
    field("data", 7, FIELD.TYPE_BYTES)
    field("big", 8, FIELD.TYPE_UINT64)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    for name, number, kind in (("key", 1, FIELD.TYPE_STRING), ("value", 2, FIELD.TYPE_INT32)):
        entry.field.add(name=name, number=number, type=kind, label=FIELD.LABEL_OPTIONAL)
    field("counts", 9, FIELD.TYPE_MESSAGE, ".shop.Order.CountsEntry", label=FIELD.LABEL_REPEATED)
    field("parent", 10, FIELD.TYPE_MESSAGE, ".shop.Order")
    found = descriptor_pb2.FileDescriptorSet(file=[file])
    # Imports last: `protoc` writes them first, but the format does not require it.
    for needed in (timestamp_pb2, wrappers_pb2):
        needed.DESCRIPTOR.CopyToProto(found.file.add())
    return found.SerializeToString()


def order_class() -> type[Message]:
    """Return the message's class, built without the code under test."""
    found = descriptor_pb2.FileDescriptorSet.FromString(descriptors())
    return message_factory.GetMessages(found.file)[MESSAGE]

"""Topic of events in JSON, Avro or Protobuf for benchmarks, and a pipeline that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import fastavro
from confluent_kafka import Producer
from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2

from hybrid_extensions.servers.broker import create_topic
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline

TOPIC = "bench"
PARTITIONS = 4
_DELIVERY_S = 300
COLUMNS = {"id": "bigint", "at": "timestamp", "user": "string", "value": "double"}
SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "user", "type": "string"},
        {"name": "value", "type": "double"},
    ],
}
MESSAGE = "bench.Event"
Form = Literal["json", "avro", "protobuf"]
_PARSED = fastavro.parse_schema(SCHEMA)


def produce(servers: str, rows: int, form: Form = "json") -> None:
    """Create the topic and fill its partitions evenly; a JSON record has about 80 bytes.

    Args:
        servers: Address of the broker.
        rows: Number of records.
        form: Format of the values.
    """
    encode = encoder(form)
    create_topic(servers, TOPIC, PARTITIONS, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000})
    for n in range(rows):
        at = datetime(2024, 1, 1 + n % 28, tzinfo=UTC)
        value = encode({"id": n, "at": at, "user": f"user{n % 1000}", "value": n * 0.5})
        send(producer, TOPIC, value, partition=n % PARTITIONS)
    deliver(producer)


def send(producer: Producer, topic: str, value: bytes | str | None, **record: Any) -> None:
    """Put a record into a producer's queue; wait while the queue is full.

    Args:
        producer: The producer.
        topic: Name of the topic.
        value: Value of the record.
        record: More of what ``Producer.produce`` takes, such as ``partition``.
    """
    while True:
        try:
            producer.produce(topic, value, **record)
            return
        except BufferError:
            producer.poll(0.1)


def deliver(producer: Producer) -> None:
    """Wait until all records of a producer are written.

    Raises:
        RuntimeError: The broker did not confirm all of them within 300 s.
    """
    if left := producer.flush(_DELIVERY_S):
        message = f"{left} records were not delivered."
        raise RuntimeError(message)


def descriptors() -> bytes:
    """Return a serialized ``FileDescriptorSet`` with the message type of an event."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="event.proto",
        package="bench",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    event = file.message_type.add(name="Event")
    types = (kinds.TYPE_INT64, kinds.TYPE_MESSAGE, kinds.TYPE_STRING, kinds.TYPE_DOUBLE)
    for number, (name, kind) in enumerate(zip(COLUMNS, types, strict=True), 1):
        field = event.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
        if kind == kinds.TYPE_MESSAGE:
            field.type_name = ".google.protobuf.Timestamp"
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(file)
    return files.SerializeToString()


@cache
def event_class() -> Any:
    """Return the Python class of the Protobuf message of an event."""
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file
    return message_factory.GetMessages(files)[MESSAGE]


def encoder(form: Form) -> Callable[[dict[str, Any]], bytes]:
    """Return the function that encodes a row in a format."""
    if form == "protobuf":
        event = event_class()
        return lambda row: event(**row).SerializeToString()
    return _as_json if form == "json" else _as_avro


def _as_json(row: dict[str, Any]) -> bytes:
    """Encode a row as JSON."""
    at = f"{row['at']:%Y-%m-%dT%H:%M:%SZ}"
    return json.dumps({**row, "at": at}).encode()


def _as_avro(row: dict[str, Any]) -> bytes:
    """Encode a row as Avro, without a schema in front."""
    out = BytesIO()
    fastavro.schemaless_writer(out, _PARSED, row)
    return out.getvalue()


def topic_pipeline(
    folder: Path, servers: str, spark: Mapping[str, Any], form: Form = "json"
) -> LoadedPipeline:
    """Return a pipeline whose only source is the bounded topic.

    Args:
        folder: Folder of the pipeline; schema files are written there.
        servers: Address of the broker.
        spark: Section ``spark`` of the pipeline.
        form: Format of the values.
    """
    described = {}
    if form == "avro":
        file = folder / "event.avsc"
        file.write_text(json.dumps(SCHEMA))
        described = {"avro_schema": str(file)}
    if form == "protobuf":
        file = folder / "event.desc"
        file.write_bytes(descriptors())
        described = {"descriptor": str(file), "message": MESSAGE}
    pipeline = Pipeline.model_validate(
        {
            "name": "bench",
            "event_time": "at",
            "sources": [
                {
                    "type": "kafka",
                    "name": "archive",
                    "topic": TOPIC,
                    "bootstrap_servers": servers,
                    "start": "earliest",
                    "until": "latest",
                    "schema": COLUMNS,
                    "format": form,
                    **described,
                }
            ],
            "transform": "none:none",
            "sink": {"path": "out", "mode": "append", "key": ["id"]},
            "state": "state",
            "spark": spark,
        }
    )
    return LoadedPipeline(folder / "bench.yaml", pipeline)

"""Records whose headers have names of any bytes, which the client of Python can't write."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_size_t, c_ssize_t, c_void_p
from pathlib import Path

import confluent_kafka

# Tags of `rd_kafka_producev`, of librdkafka's public header.
_TOPIC, _VALUE, _KEY, _COPY, _HEADERS, _END = 1, 4, 5, 7, 10, 0
_COPIES = 2


def send(servers: str, topic: str, name: bytes, value: bytes) -> None:
    """Write a record with one header."""
    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    (library,) = folder.glob("librdkafka*")
    lib = ctypes.CDLL(str(library))
    for made in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(lib, made).restype = c_void_p
    conf, text = c_void_p(lib.rd_kafka_conf_new()), ctypes.create_string_buffer(512)
    lib.rd_kafka_conf_set(conf, b"bootstrap.servers", servers.encode(), text, c_size_t(512))
    producer = c_void_p(lib.rd_kafka_new(0, conf, text, c_size_t(512)))
    headers = c_void_p(lib.rd_kafka_headers_new(c_size_t(1)))
    lib.rd_kafka_header_add(headers, name, c_ssize_t(len(name)), b"x", c_ssize_t(1))
    sent = lib.rd_kafka_producev(
        *(producer, _TOPIC, topic.encode(), _VALUE, c_char_p(value), c_size_t(len(value))),
        *(_KEY, c_char_p(b"k"), c_size_t(1), _COPY, _COPIES, _HEADERS, headers, _END),
    )
    assert (sent, lib.rd_kafka_flush(producer, 20_000)) == (0, 0)
    lib.rd_kafka_destroy(producer)

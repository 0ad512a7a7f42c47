"""Captured databases: what all kinds of them share, from the snapshot to the connector's lag.

Belongs here: whatever connects to a database, or decides by what one answers. Kinds of databases
are extensions of their own, which import this one. Does not belong here: Debezium's envelopes in
Kafka (`sources.decoding`), and how a pipeline declares a snapshot (`sources.config`).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "cdc",
    captured_tables="hybrid_extensions.cdc.captured_tables:TABLES",
    capture="hybrid_extensions.cdc.capture:CAPTURE",
)

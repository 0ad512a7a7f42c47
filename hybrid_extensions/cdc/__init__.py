"""Captured databases: what all kinds of them share, from the snapshot to the connector's lag.

Belongs here: whatever connects to a database, or decides by what one answers, how many partitions
and which retention its topics get, and the decoder of Debezium's changes. Kinds of databases are
extensions of their own, which import this one. Does not belong here: how a pipeline declares a
snapshot and a captured table (`sources.config`, `sources.decoding.changes`).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "cdc",
    section="hybrid_extensions.cdc.shard_checks:ShardSection",
    commands="hybrid_extensions.cdc.cli:app",
    whole_file_commands=("tables",),
    groups="hybrid_extensions.cdc.tables.group:group_of",
    group_commands="hybrid_extensions.cdc.tables.commands:act",
    value_formats="hybrid_extensions.cdc.debezium.declare:FORMATS",
    later_columns="hybrid_extensions.cdc.spark.later_columns:follow_later_columns",
    transform_checks="hybrid_extensions.cdc.spark.passed_on:require_passed_on",
    captured_tables="hybrid_extensions.cdc.captured_tables:TABLES",
    capture="hybrid_extensions.cdc.capture:CAPTURE",
)

"""Starter that captures tables of a database: a pipeline for each, the connector, and topics."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import yaml

from hybrid_extensions.cdc.capture_starter import CapturedKind, CaptureOptions, topic_of
from hybrid_extensions.cdc.databases.captured_table import DatabaseTable, require_key
from hybrid_extensions.cdc.databases.kinds import part_for
from hybrid_extensions.cdc.tables.names import pipeline_name
from orchestration.remedies import Remedy
from sources.common.fields import check_name
from sources.config.database_kind import kind_of
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import HybridError, InputError

_HEAD = "# Captures table {table}. All fields: docs/pipeline.md; how it works: docs/cdc.md.\n"
_TRANSFORM = '''\
"""Transform of the rows, the same for snapshot and changes."""

from pyspark.sql import DataFrame


def rows(rows: DataFrame) -> DataFrame:
    """Return all rows unchanged."""
    return rows
'''
_TOPICS = """\
#!/bin/sh
# Topics of the captured tables. Changes must not expire before they are read.
set -e
{commands}
"""


def start_capture(
    folder: Path, options: CaptureOptions
) -> tuple[list[LoadedPipeline], list[Path], list[str]]:
    """Write the files that capture tables of a database into a folder.

    If a pipeline would not be valid, none of the files stays. Nothing is created in the database or
    in Kafka.

    Args:
        folder: Folder that exists, to write to.
        options: Name, database and tables.

    Returns:
        A pipeline for each table; the paths of all files; and sentences about what is not captured.

    Raises:
        InputError: A name is not valid, the database refuses, there is no such table, it can't be
            captured, a file exists, or a pipeline would not be valid.
        UnavailableError: The database does not answer.
        OSError: A file can't be written; those before it stay.
    """
    check_name(options.name)
    if not options.tables:
        message = "A database is named, but none of its tables: it needs the tables to capture."
        raise InputError(message, "Name each, such as `--tables shop.orders`.", field="tables")
    if twice := [name for name in options.tables if options.tables.count(name) > 1]:
        message = f"Table `{twice[0]}` is named twice."
        raise InputError(message, "Name it once.", field="tables", value=twice[0])
    kind = _kind(options)
    tables, warnings = kind.tables(options)
    for table in tables:
        require_key(table)
        warnings += [
            f"Column `{name}` of table `{table.name}` is left out: {why}."
            for name, why in table.left_out.items()
        ]
    names = _pipeline_names(tables)
    if twice := [name for name in names if names.count(name) > 1]:
        alike = [each.name for each, name in zip(tables, names, strict=True) if name == twice[0]]
        message = f"Tables {' and '.join(alike)} would have pipelines of one name, `{twice[0]}`."
        hint = (
            "Run `hybrid init` for each of them, with another name and in another folder. Nothing "
            "was written."
        )
        raise InputError(message, hint, value=twice[0])
    made = {
        folder / f"{name}.yaml": _pipeline(kind, name, table, options)
        for name, table in zip(names, tables, strict=True)
    }
    others = {
        folder / f"{options.name}_transform.py": _TRANSFORM,
        folder / f"{options.name}_connector.json": _connector(kind, options, tables),
        folder / f"{options.name}_topics.sh": _topics(kind, options),
    }
    if there := [path for path in [*made, *others] if path.exists()]:
        message = f"File {there[0]} exists already; nothing was written."
        hint = "Choose another name, or move the file away."
        raise InputError(message, hint, file=str(there[0]))
    for path, text in {**made, **others}.items():
        path.write_text(text)
    try:
        return [load_pipeline(path) for path in made], [*made, *others], warnings
    except HybridError:
        for path in [*made, *others]:
            path.unlink()
        raise


def next_steps(options: CaptureOptions, loaded: Sequence[LoadedPipeline]) -> str:
    """Return the next commands to run, one per line, for a shell in this process's folder.

    Args:
        options: Options of the starter.
        loaded: The pipelines that it has written, at least one.
    """
    password = kind_of(options.dsn).password
    given = "" if os.environ.get(password) else f"{password}=… "
    runs = "\n".join(
        f"  {given}{Remedy('run').command(_here(each.path)).strip('`')}" for each in loaded
    )
    folder = loaded[0].path.parent
    topics = shlex.quote(_here(folder / f"{options.name}_topics.sh"))
    connector = shlex.quote(f"@{_here(folder / f'{options.name}_connector.json')}")
    post = (
        f"curl -X POST -H 'Content-Type: application/json' --data {connector} "
        f"{shlex.quote(options.connectors)}"
    )
    return f"Then:\n  sh {topics}\n  {post}\n{runs}"


def _here(path: Path) -> str:
    """Return a path as people would type it in the folder of this process."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _kind(options: CaptureOptions) -> CapturedKind:
    kind: CapturedKind = part_for(options.dsn, "starter")
    return kind


def _pipeline_names(tables: Sequence[DatabaseTable]) -> list[str]:
    """Return a name for each table's pipeline: the table's, with its schema if two are the same."""
    short = [pipeline_name("", table.name.partition(".")[2]) for table in tables]
    return [
        name if name[:1].isalpha() and short.count(name) == 1 else pipeline_name("", table.name)
        for name, table in zip(short, tables, strict=True)
    ]


def _pipeline(kind: CapturedKind, name: str, table: DatabaseTable, options: CaptureOptions) -> str:
    """Return the file of a table's pipeline."""
    ignored = {"ignored_columns": [*table.left_out]} if table.left_out else {}
    document = {
        "name": name,
        "event_time": "_committed_at",
        "sources": [
            {
                "name": "snapshot",
                "type": "files",
                "path": f"snapshot/{name}/*.parquet",
                "format": "parquet",
                "snapshot": kind.snapshot(options),
            },
            {
                "name": "changes",
                "type": "kafka",
                "topic": topic_of(options, table.name),
                "bootstrap_servers": options.servers,
                "format": "debezium",
                "table": table.name,
                "schema": table.columns,
                **ignored,
                "include": dict(kind.include),
                **kind.changes,
            },
        ],
        "transform": f"{options.name}_transform:rows",
        "sink": {
            "path": f"tables/{name}",
            "mode": "merge",
            "key": table.key,
            "sequence": "_position",
            "deleted": "_deleted",
            **kind.sink,
        },
        "state": "state",
    }
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return _HEAD.format(table=table.name) + text


def _connector(kind: CapturedKind, options: CaptureOptions, tables: Sequence[DatabaseTable]) -> str:
    """Return the connector as Kafka Connect's REST interface takes it."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    config = {
        **kind.connector(options, tables),
        # https://kafka.apache.org/documentation/#connect_configproviders: an EnvVarConfigProvider.
        "database.password": f"${{env:{kind_of(options.dsn).password}}}",
        "topic.prefix": options.name,
        "table.include.list": ",".join(_as_pattern(table.name) for table in tables),
        "snapshot.mode": "no_data",
        "skipped.operations": "none",
        "key.converter": converter,
        "value.converter": converter,
        "value.converter.schemas.enable": "true",
        "value.converter.replace.null.with.default": "false",
    }
    return json.dumps({"name": options.name, "config": config}, indent=2) + "\n"


def _as_pattern(table: str) -> str:
    """Return the name of a table as Debezium's lists of regular expressions take it."""
    return "".join(each if each.isalnum() or each in "._" else f"\\{each}" for each in table)


def _topics(kind: CapturedKind, options: CaptureOptions) -> str:
    """Return the script that creates the topics."""
    commands = [
        f"kafka-topics.sh --bootstrap-server {shlex.quote(options.brokers)} --create "
        f"--if-not-exists --topic {shlex.quote(name)} --partitions {topic.partitions} "
        f"--replication-factor 1 --config retention.ms={topic.retention_ms} "
        "--config cleanup.policy=delete"
        for name, topic in kind.topics(options).items()
    ]
    return _TOPICS.format(commands="\n".join(commands))

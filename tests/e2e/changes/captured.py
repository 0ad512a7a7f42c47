"""The declaration of a captured table that a chain reads: its snapshot, then its changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sources.config.loader import LoadedPipeline, load_pipeline
from tests.e2e.case import SMALL
from tests.minimal import minimal_declaration


def captured(
    folder: Path,
    table: str,
    database: Mapping[str, Any],
    topic: Mapping[str, Any],
    key: Sequence[str],
    edit: Callable[[dict[str, Any]], None],
) -> LoadedPipeline:
    """The pipeline of a table, from a file in a folder.

    Args:
        folder: Where the file is.
        table: The table's name, and the pipeline's.
        database: What the snapshot declares of its database.
        topic: Topic, table, columns and all else that the source of the changes declares.
        key: Columns that identify a row.
        edit: Changes the declaration before it is written.
    """
    document = minimal_declaration(
        {
            "name": "snapshot",
            "type": "files",
            "path": f"snapshot/{table}/*.parquet",
            "format": "parquet",
            "snapshot": {"chunk_rows": 200, **database},
        },
        {
            "name": "changes",
            "type": "kafka",
            "format": "debezium",
            "trigger_interval": "200 ms",
            **topic,
        },
        name=table,
        event_time="_committed_at",
        sink={
            "path": f"out/{table}",
            "mode": "merge",
            "key": list(key),
            "sequence": "_position",
            "deleted": "_deleted",
        },
        spark={"conf": dict(SMALL)},
    )
    edit(document)
    path = folder / f"{document['name']}.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_pipeline(path)

"""A pipeline that captures a table: a snapshot by `hybrid snapshot`, then its changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sources.config.loader import LoadedPipeline
from tests.minimal import minimal_pipeline
from tests.sources.config.test_unchanged import CHANGES, MERGE

NO_SERVER = {"dsn": "logged://reader@localhost:1/shop"}


def captured_table(
    folder: Path,
    database: Mapping[str, Any] = NO_SERVER,
    table: str = "shop.orders",
    include: Mapping[str, str] = CHANGES["include"],
    **fields: Any,
) -> LoadedPipeline:
    """The pipeline, from a file in a folder.

    Args:
        folder: Where the file is.
        database: What the snapshot declares of its database.
        table: The table there.
        include: What is declared of each change.
        fields: Further fields of the pipeline.
    """
    files = {"name": "snapshot", "type": "files", "path": "snapshot/*.parquet", "format": "parquet"}
    changes = {name: value for name, value in CHANGES.items() if name != "start"}
    return minimal_pipeline(
        folder,
        {**files, "snapshot": dict(database)},
        {**changes, "table": table, "include": dict(include)},
        sink=MERGE,
        **fields,
    )

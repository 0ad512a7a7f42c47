"""The declaration of one target for the tables of several databases, its shards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sources.config.loader import LoadedPipeline
from tests.e2e.changes.captured import captured


def sharded(
    folder: Path, snapshots: Mapping[str, Mapping[str, Any]], topic: Mapping[str, Any]
) -> LoadedPipeline:
    """The pipeline of a table `orders`, with the shard in its key.

    Args:
        folder: Where its file is.
        snapshots: What the snapshot of each shard declares of its database, by its topic.
        topic: Table, columns and all else that the source of the changes declares.
    """

    def of_shards(document: dict[str, Any]) -> None:
        source, changes = document["sources"]
        document["sources"] = [
            {
                **source,
                "name": f"snapshot_{number}",
                "path": f"snapshot/{number}/*.parquet",
                "snapshot": {"chunk_rows": 200, "topic": name, **database},
            }
            for number, (name, database) in enumerate(snapshots.items())
        ]
        document["sources"].append(changes)

    include = {"_shard": "topic", **topic["include"]}
    of_all = {**topic, "topic": list(snapshots), "include": include}
    return captured(folder, "orders", {}, of_all, ["_shard", "id"], of_shards)

"""The pipelines of the project that do the same as Flink's."""

from __future__ import annotations

from typing import Any

import yaml

from benchmarks.flink.inputs import COLUMNS, TOPIC, Inputs
from sources.config.loader import LoadedPipeline, load_pipeline

# As Flink's: two tasks, 4 GiB. A commit each second is the default of a topic.
SPARK: dict[str, Any] = {
    "master": "local[2]",
    "driver_memory": "4g",
    "conf": {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"},
}
_TRANSFORMS = """
from pyspark.sql import functions as F


def rows(rows):
    return rows


def counts(rows):
    window = F.window("at", "1 hour")
    counted = rows.withWatermark("at", "1 hour").groupBy(window, "user")
    sums = counted.agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    return sums.select(F.col("window.start").alias("hour"), "user", "n", "total")
"""


def pipeline(inputs: Inputs, work: str, name: str) -> LoadedPipeline:
    """Write the file of a pipeline, with its own state and table, and load it.

    Args:
        inputs: Files and topic.
        work: ``files``, ``topic``, ``windows`` or ``chain``.
        name: Name of the pipeline; its table is ``<folder>/<name>``.
    """
    files = {
        "type": "files",
        "name": "history",
        "path": "history/*.json",
        "format": "json",
        "schema": COLUMNS,
    }
    topic = {
        "type": "kafka",
        "name": "live",
        "topic": TOPIC,
        "bootstrap_servers": inputs.servers,
        "format": "json",
    }
    alone = {**topic, "schema": COLUMNS, "start": "earliest"}
    sources = {"files": [files], "topic": [alone], "windows": [alone], "chain": [files, topic]}
    document = {
        "name": name,
        "event_time": "at",
        "sources": sources[work],
        "transform": f"transforms:{'counts' if work == 'windows' else 'rows'}",
        "sink": {
            "path": name,
            "mode": "append",
            "key": ["hour", "user"] if work == "windows" else ["id"],
        },
        "state": f"state-{name}",
        "spark": SPARK,
        **({"key": ["id"]} if work == "chain" else {}),
    }
    (inputs.folder / "transforms.py").write_text(_TRANSFORMS)
    path = inputs.folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_pipeline(path)

"""Settings (`spark.conf`) that a checkpoint keeps from its first run: a warning of other values."""

from __future__ import annotations

from sources.config.pipeline import Pipeline
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log

_OF_SQL = "spark.sql."


def overruled_settings(pipeline: Pipeline, checkpoint: Folder) -> str | None:
    """Return a warning about declared settings that the checkpoint has other values of.

    Such as the number of shuffle partitions, by which the state of operators is distributed. Spark
    takes the checkpoint's values without a word. Only settings whose names begin with
    ``spark.sql.`` are compared; one that the checkpoint does not keep passes.

    Args:
        pipeline: The pipeline, as it is declared now.
        checkpoint: The checkpoint's folder.

    Returns:
        None if there are none, or no micro-batch was begun.

    Raises:
        StateError: The file of the last micro-batch's offsets is missing or damaged.
        UnavailableError: The checkpoint's store does not answer.
    """
    conf = pipeline.spark.conf
    declared = {name: value for name, value in conf.items() if name.startswith(_OF_SQL)}
    if not declared or (last := offset_log.last_planned(checkpoint)) is None:
        return None
    kept = offset_log.kept_settings(checkpoint, last)
    others = [
        f"{name}: {kept[name]}, not {value}"
        for name, value in sorted(declared.items())
        if kept.get(name, value) != value
    ]
    if not others:
        return None
    return (
        "`spark.conf` declares other values than the checkpoint was begun with, and Spark goes on "
        f"with those of the checkpoint ({'; '.join(others)}). To use the declared ones, begin a "
        "new generation: `hybrid generation new P`."
    )

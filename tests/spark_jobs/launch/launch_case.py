"""A pipeline to launch, and what a launch leaves for others to find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sources.config.loader import LoadedPipeline
from spark_jobs.launch.launch_record import Launch
from spark_jobs.launch.places.choice import driver_place
from spark_jobs.run_state.heartbeat import Heartbeat, heartbeat_name
from tests.e2e.case import TRANSFORMS
from tests.minimal import minimal_pipeline

ID = "0f" * 16
NAME = f"hybrid-{ID}"


def pipeline(folder: Path, spark: dict[str, Any], **changes: Any) -> LoadedPipeline:
    (folder / "transforms.py").write_text(TRANSFORMS)
    columns = {"id": "bigint", "at": "timestamp"}
    files = {"type": "files", "format": "json", "schema": columns}
    return minimal_pipeline(
        folder,
        {**files, "name": "history", "path": "in/*.json"},
        {**files, "name": "inbox", "path": "inbox", "discovery_interval": "1 s"},
        name="events",
        key=["id"],
        spark=spark,
        **changes,
    )


def launched(loaded: LoadedPipeline, source: str = "inbox", **changes: Any) -> Launch:
    """A launch that somebody made who is gone since."""
    generation = loaded.open_generation(create=True)
    assert generation is not None
    place = driver_place(loaded.pipeline.spark)
    log = f"run/{source}.log"
    made = Launch(launch_id=ID, source=source, log=log, group=None, at_ms=1, place=place, **changes)
    generation.replace("run/launch.json", made)
    return made


def beat(loaded: LoadedPipeline, state: str) -> None:
    """The last word of that launch's driver."""
    said = {
        "launch_id": ID,
        "pid": 4_000_000,
        "host": "worker-7",
        "source": "inbox",
        "phase": "unbounded",
        "state": state,
        "at_ms": 1,
    }
    name = heartbeat_name("inbox")
    loaded.require_generation().replace(name, Heartbeat.model_validate(said))

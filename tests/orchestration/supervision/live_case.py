"""A live run without its process: the test writes what a driver would, and holds its lock."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from orchestration.operations import chain_plan
from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.supervision.watch_memory import Watch
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import ErrorReport
from sources.state.generation import Generation
from spark_jobs.launch import run_control
from spark_jobs.launch.launch_record import Launch
from spark_jobs.run_state.driver_lock import QueryLock, is_held
from spark_jobs.run_state.heartbeat import Heartbeat, heartbeat_name
from spark_jobs.run_state.requested_state import request
from tests.e2e.case import TRANSFORMS
from tests.minimal import minimal_declaration

DISK_FULL = ErrorReport(kind="spark", message="disk full", transient=True)
"""A failure that is worth a restart."""
GAP = ErrorReport(kind="seam", message="Records are missing.", hint="Accept the gap.")
"""A failure that a restart can't mend."""
QUICK = {
    "restarts": {"backoff": "0 s", "limit": 4, "loop": 2},
    "stuck_after": "1 min",
    "end_stuck_after": "0 s",
}


class LiveCase:
    """A pipeline that ends in a folder, so that no broker is asked, unless `inbox` is declared."""

    def __init__(
        self,
        folder: Path,
        supervision: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        sink_mode: str = "append",
        inbox: Mapping[str, Any] | None = None,
    ) -> None:
        (folder / "transforms.py").write_text(TRANSFORMS)
        columns = {"id": "bigint", "at": "timestamp"}
        files = {"type": "files", "format": "json", "schema": columns}
        document = minimal_declaration(
            {**files, "name": "history", "path": "in/*.json"},
            inbox or {**files, "name": "inbox", "path": "inbox", "discovery_interval": "1 s"},
            name="events",
            key=["id"],
            sink={"path": "out", "mode": sink_mode, "key": ["id"]},
            supervision={**QUICK, **(supervision or {})},
        )
        self.path = folder / "events.yaml"
        self.path.write_text(yaml.safe_dump(document))
        self.loaded: LoadedPipeline = load_pipeline(self.path, environment or {})
        generation = self.loaded.open_generation(create=True)
        assert generation is not None
        self.generation: Generation = generation

    def plan_history(self) -> None:
        """Plan a history of one row; the folder that the live run reads is empty."""
        folder = self.path.parent
        (folder / "in").mkdir()
        (folder / "inbox").mkdir()
        (folder / "in/a.json").write_text('{"id": 1, "at": "2024-01-01T00:00:00Z"}\n')
        chain_plan.plan(self.loaded)

    def ask_for_it(self) -> None:
        request(self.generation, "inbox", is_requested=True)

    def launch(self, launch_id: str, **changes: Any) -> None:
        """A launch that came up and said something."""
        made = Launch(
            launch_id=launch_id, source="inbox", log="run/inbox.log", group=None, at_ms=now_ms()
        )
        self.generation.replace("run/launch.json", made)
        said = {
            "launch_id": launch_id,
            "pid": 4_000_000,
            "host": socket.gethostname(),
            "source": "inbox",
            "phase": "unbounded",
            "state": "running",
            "at_ms": now_ms(),
            "advanced_at_ms": now_ms(),
            "idle": True,
            "splits_done": 3,
            "splits_total": 3,
        }
        beat = Heartbeat.model_validate({**said, **changes})
        self.generation.replace(heartbeat_name("inbox"), beat)

    @contextmanager
    def alive(self) -> Iterator[None]:
        with QueryLock(self.generation):
            yield

    @contextmanager
    def alive_until_stopped(self) -> Iterator[None]:
        """A driver that ends when it is stopped."""
        with ExitStack() as held, pytest.MonkeyPatch.context() as patch:
            held.enter_context(QueryLock(self.generation))

            def stop(generation: Generation, source: str) -> bool:
                if source != "inbox" or not is_held(generation):
                    return False
                held.close()
                return True

            patch.setattr(run_control, "stop", stop)
            yield

    def watch(self) -> Watch:
        found = self.generation.read("run/watch.json", Watch)
        assert found is not None
        return found


def sensor_of(loaded: LoadedPipeline) -> dg.SensorDefinition:
    """What supervises a pipeline, as Dagster has it."""
    [sensor] = pipeline_definitions(loaded).sensors or []
    assert isinstance(sensor, dg.SensorDefinition)
    return sensor

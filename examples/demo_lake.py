"""``make demo-lake``: the flight pipelines with nothing on this machine's disk but Dagster's own.

History, state, checkpoints and tables are in a bucket of an S3 server on this machine, or, with
``LAKE=s3://bucket/prefix``, of the store that AWS's variables name. One driver is killed in the
middle of history, where Dagster tries again by itself, and another one while it is live, whose job
is launched again. Each table is then compared with an independent computation. The exit status is 0
if all tables are correct, 1 if not, 2 if a step fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from dagster import DagsterInstance

from examples import flight_data
from examples.demo import (
    FEED_RATE,
    ROOT,
    Stages,
    conclude,
    console,
    finish,
    launch_job,
    live_source,
    prepare,
)
from hybrid_extensions.servers.s3 import LOGIN, LocalS3, client
from orchestration import operations
from orchestration.comparison.installed_audit import audit
from orchestration.comparison.report import AuditReport
from sources.config.loader import LoadedPipeline
from sources.errors import RunError
from sources.state.generation import Generation
from spark_jobs.checkpoint import offset_log
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.launch.places.local import kill_group

_BUCKET = "lake"
_POLL_S = 0.2
_TIMEOUT_S = 600.0


def main() -> int:
    """Run the demo with the options of the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo-lake", help="is emptied first")
    parser.add_argument("--lake", help="s3://bucket/prefix of a store of one's own")
    options = parser.parse_args()
    stages, folder = Stages(), options.folder.absolute()

    def run(cleanup: ExitStack) -> list[AuditReport]:
        def open_lake() -> str:
            with stages("S3 server"):
                return _open_lake(options.lake, cleanup)

        loaded, rest = prepare(folder, stages, cleanup, open_lake)
        return _run(loaded, rest, stages, folder)

    return conclude(run, stages)


def _open_lake(url: str | None, cleanup: ExitStack) -> str:
    """Return the URL of an empty place in a store; start a store if none is given."""
    if url is None:
        server = cleanup.enter_context(LocalS3())
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            os.environ.pop(name, None)
        os.environ.update(LOGIN, AWS_ENDPOINT_URL_S3=server.endpoint)
        client(server.endpoint).create_bucket(Bucket=_BUCKET)
        url = f"s3://{_BUCKET}"
    place = f"{url.rstrip('/')}/demo-{uuid.uuid4().hex[:8]}"
    console.print(f"          {place}", markup=False)
    return place


def _run(
    loaded: list[LoadedPipeline],
    rest: list[flight_data.FeedRecord],
    stages: Stages,
    folder: Path,
) -> list[AuditReport]:
    """Run the Dagster jobs, with two kills, and the rest of the feed; audit the tables.

    Raises:
        RunError: A Dagster job fails, or a driver is not in time where it is to be killed.
    """
    first, second = loaded
    with (
        stages("Dagster: plan → history → live_handover → live, both pipelines, one kill"),
        # Makes Dagster's database: two processes can't both make it.
        DagsterInstance.get(),
        ThreadPoolExecutor() as pool,
    ):
        jobs = [pool.submit(launch_job, one.pipeline.name, folder) for one in loaded]
        # Dagster tries the step again, as its asset says.
        _kill(first, _is_in_a_batch)
        for job in jobs:
            job.result()
    source = live_source(first)
    with (
        stages(f"rest of the feed: {len(rest):,} records; live driver killed and run again"),
        ThreadPoolExecutor() as pool,
    ):
        feed = pool.submit(
            flight_data.produce,
            rest,
            source.bootstrap_servers,
            source.topics[0],
            rate=FEED_RATE / 20,
        )
        before = _committed(second)
        _kill(second, lambda _: _committed(second) > before)
        launch_job(second.pipeline.name, folder)
        feed.result()
    with stages("streams caught up and stopped"), ThreadPoolExecutor() as pool:
        list(pool.map(finish, loaded))
    with stages("audit: DuckDB over all raw input"):
        return [audit(one) for one in loaded]


def _is_in_a_batch(generation: Generation) -> bool:
    """Return whether a micro-batch is planned and not committed."""
    checkpoint = generation.checkpoint
    return offset_log.last_planned(checkpoint) != offset_log.last_committed(checkpoint)


def _committed(loaded: LoadedPipeline) -> int:
    """Return the last micro-batch whose commit is in the checkpoint, -1 if there is none."""
    generation = loaded.open_generation(create=False)
    batch = None if generation is None else offset_log.last_committed(generation.checkpoint)
    return -1 if batch is None else batch


def _kill(loaded: LoadedPipeline, is_time: Callable[[Generation], bool]) -> None:
    """Kill a pipeline's driver and its JVM with SIGKILL once a condition holds.

    Raises:
        RunError: It does not hold in time.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        generation = loaded.open_generation(create=False)
        launch = None if generation is None else last_launch(generation)
        if generation and launch and launch.group and is_time(generation):
            kill_group(launch.group)
            console.print(f"          killed: driver of {loaded.pipeline.name}, {launch.source}")
            while operations.is_live(loaded):
                time.sleep(_POLL_S)
            return
        time.sleep(_POLL_S)
    message = f"Nothing was killed: {loaded.pipeline.name} was not ready within {_TIMEOUT_S:.0f} s."
    raise RunError(message, "Look at the logs in the demo's folder.")


if __name__ == "__main__":
    sys.exit(main())

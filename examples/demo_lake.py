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
import uuid
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
from examples.killed_drivers import committed, is_in_a_batch, kill_driver
from hybrid_extensions.servers.s3 import LOGIN, LocalS3, client
from orchestration.comparison.installed_audit import audit
from orchestration.comparison.report import AuditReport
from sources.config.loader import LoadedPipeline

_BUCKET = "lake"


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
        kill_driver(first, is_in_a_batch)
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
        before = committed(second)
        kill_driver(second, lambda _: committed(second) > before)
        launch_job(second.pipeline.name, folder)
        feed.result()
    with stages("streams caught up and stopped"), ThreadPoolExecutor() as pool:
        list(pool.map(finish, loaded))
    with stages("audit: DuckDB over all raw input"):
        return [audit(one) for one in loaded]


if __name__ == "__main__":
    sys.exit(main())

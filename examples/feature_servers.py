"""The servers of the demos of features: a broker, and PostgreSQL, which serves."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

from examples.demo import Stages, console
from hybrid_extensions.servers.broker import LocalBroker
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from spark_jobs.jvm.jars import resolve_sets


def start_servers(folder: Path, stages: Stages, cleanup: ExitStack) -> None:
    """Empty the folder; start the servers, and name them in the environment.

    Args:
        folder: Folder of a demo.
        stages: Stopwatch.
        cleanup: Receives callbacks that stop the servers.
    """
    with stages("jars for Spark and Kafka (downloaded once, then cached)"):
        resolve_sets(["spark", "broker"], lambda text: console.print(f"          {text}"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with stages("Kafka broker, PostgreSQL"):
        broker = cleanup.enter_context(LocalBroker(folder / "broker"))
        database = cleanup.enter_context(LocalPostgres())
    os.environ.update(
        KAFKA_BOOTSTRAP_SERVERS=broker.bootstrap_servers,
        SERVING_DSN=database.dsn,
        SERVING_PASSWORD=database.password,
    )

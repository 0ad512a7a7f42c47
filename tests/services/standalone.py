"""A standalone cluster of Spark on this machine: a master and two workers, each a process."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from hybrid_extensions.servers.process import HOST, end, free_ports, spawn
from spark_jobs.jvm.java import require_java
from spark_jobs.jvm.spark_version import spark_home
from tests.services.processes import all_running, child_of, wait_for

_WORKERS = 2
_DAEMON = {
    "SPARK_LOCAL_IP": HOST,
    "SPARK_DAEMON_MEMORY": "192m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
_DEPLOY = "org.apache.spark.deploy"


class Standalone(NamedTuple):
    """A running cluster.

    Attributes:
        url: Spark's master URL.
        workers: Process ids of the workers, whose children are the executors.
    """

    url: str
    workers: tuple[int, ...]

    def executors(self) -> set[int]:
        """Process ids of the executors that run now."""
        return {
            each.pid
            for each in all_running()
            if each.parent in self.workers and "CoarseGrainedExecutorBackend" in each.command
        }


@contextmanager
def standalone(
    folder: Path, memory: str = "600M", hidden: Path | None = None
) -> Iterator[Standalone]:
    """A cluster of two executors of one core each.

    Args:
        folder: For logs and the executors' files.
        memory: What each worker offers.
        hidden: Folder that workers and executors see empty, as other machines would.
    """
    port, web = free_ports(2)
    url = f"spark://{HOST}:{port}"
    variables = {**_DAEMON, "JAVA_HOME": str(require_java().resolve().parent.parent)}
    given = [f"{name}={value}" for name, value in variables.items()]
    start = ["env", *given, str(spark_home() / "bin" / "spark-class")]
    log = folder / "cluster.log"
    with ExitStack() as stack:
        ports = ["--host", HOST, "--port", str(port), "--webui-port", str(web)]
        stack.callback(end, spawn([*start, f"{_DEPLOY}.master.Master", *ports], log))
        workers = []
        for number in range(_WORKERS):
            place = ["--host", HOST, "--webui-port", "0", "--work-dir", str(folder / str(number))]
            offer = ["--cores", "1", "--memory", memory]
            command = [*start, f"{_DEPLOY}.worker.Worker", *offer, *place, url]
            if hidden is not None:
                script = f'mount -t tmpfs tmpfs {quote(str(hidden))} && exec "$@"'
                command = ["unshare", "--mount", "sh", "-c", script, "sh", *command]
            workers.append(spawn(command, log))
            stack.callback(end, workers[-1])
        wait_for(lambda: _alive(f"http://{HOST}:{web}") == _WORKERS, f"workers ({log})", 90)
        yield Standalone(url, tuple(child_of(worker.pid) for worker in workers))


def _alive(web: str) -> int:
    """Workers that the master knows."""
    try:
        with urllib.request.urlopen(f"{web}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):
        return 0

"""``make demo-features``: features of orders over two tables, proved by DuckDB.

Orders, profiles of users and rates of currencies, each with weeks of files and a topic that goes on
with them, become one table; a second one follows it, and adds up each user's days. Of both Dagster
makes a training set, and PostgreSQL serves the second one. At the end DuckDB computes everything
from all raw input. The exit status is 0 if all of it is equal, 1 if not, 2 if a step fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from rich.table import Table

from examples.demo import ROOT, Stages, conclude, console, stop
from examples.feature_servers import start_servers
from examples.flight_data import create_feed_topic, produce, split_feed
from examples.killed_drivers import committed
from examples.order_features import data
from examples.order_features.proof import Compared, prove
from examples.order_features.steps import (
    hybrid,
    kill_live,
    launch_set,
    run_with_kill,
)
from sources.config.loader import load_pipeline
from sources.errors import RunError

PIPELINES = Path(__file__).parent / "pipelines"
ORDERS, USERS = "order_features.yaml", "user_features.yaml"
_SET = ("user_features", "training", "returns")
_FINAL_S = 600.0
_POLL_S = 0.3


def main() -> int:
    """Run the demo with the options of the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = ROOT / ".demo-features"
    parser.add_argument("--folder", type=Path, default=default, help="is emptied first")
    parser.add_argument("--kills", action="store_true", help="kill each driver twice")
    options = parser.parse_args()
    folder, stages = options.folder.absolute(), Stages()

    def run(cleanup: ExitStack) -> int:
        start_servers(folder, stages, cleanup)
        make_features(folder, stages, cleanup, has_kills=options.kills)
        status = conclusion(compare(folder, stages))
        console.print(stages.table())
        return status

    return conclude(run, stages)


def make_features(
    folder: Path, stages: Stages, cleanup: ExitStack, *, has_kills: bool = False
) -> None:
    """Make both tables, the training set and the served rows.

    Servers are those of ``KAFKA_BOOTSTRAP_SERVERS``, ``SERVING_DSN`` and ``SERVING_PASSWORD``.

    Args:
        folder: Folder of everything that is made.
        stages: Stopwatch.
        cleanup: Receives callbacks that stop both streams.
        has_kills: Kill the driver of each table while it reads history, and while it is live.

    Raises:
        RunError: A command fails.
    """
    os.environ.update(ORDERS_DATA=str(folder / "data"), ORDERS_OUT=str(folder / "tables"))
    pipelines = folder / "pipelines"
    shutil.copytree(PIPELINES, pipelines)
    with stages("orders, users and rates: three weeks of files; five days of records, two in both"):
        make_input(folder / "data")
    loaded = {each: load_pipeline(pipelines / each) for each in (ORDERS, USERS)}
    for each in loaded.values():
        cleanup.callback(stop, each)
    run = run_with_kill if has_kills else _run
    with stages("first table: three histories, three hand-overs, one live stream"):
        run(pipelines, ORDERS)
    with stages("second table: it reads the first one, then follows it"):
        run(pipelines, USERS)
    with stages("four more days of records, while both streams run"):
        before = {name: committed(each) for name, each in loaded.items()}
        produce_part(1)
        if has_kills:
            for name, batch in before.items():
                kill_live(pipelines, name, after=batch)
        _wait_until_final(folder)
    with stages("training set of both tables, by Dagster; rows of the second one in PostgreSQL"):
        _train_and_serve(pipelines)
    with stages("both streams stopped, both tables audited as they declare it"):
        for name in (USERS, ORDERS):
            hybrid(pipelines, "stop", name)
            hybrid(pipelines, "audit", name)


def _run(pipelines: Path, name: str) -> None:
    hybrid(pipelines, "run", name)


def _train_and_serve(pipelines: Path) -> None:
    launch_set(pipelines, _SET)
    hybrid(pipelines, "feed", USERS, "--once")
    hybrid(pipelines, "feed", USERS, "--served")


def make_input(folder: Path) -> None:
    """Write the files of all inputs, create their topics, and produce their first records."""
    with data.open_data() as rows:
        data.write_history(rows, folder)
    for name in data.INPUTS:
        # In one partition the records keep their order.
        create_feed_topic(*_topic(name), partitions=1)
    produce_part(0)


def produce_part(part: int) -> None:
    """Produce records of all inputs: those before :data:`data.LIVE_FROM` (0), or the rest (1)."""
    with data.open_data() as rows:
        # Orders last: each finds its user and its rate.
        for name in reversed(data.INPUTS):
            parts = split_feed(data.records(rows, name), data.LIVE_FROM)
            produce(parts[part], *_topic(name))


def _topic(name: str) -> tuple[str, str]:
    """Return the broker and the name of an input's topic."""
    return os.environ["KAFKA_BOOTSTRAP_SERVERS"], os.environ.get("ORDERS_TOPICS", "") + name


def _wait_until_final(folder: Path) -> None:
    """Wait until the watermark has followed the last orders, so that the last day is written.

    Raises:
        RunError: It is not in time.
    """
    table = folder / "tables" / "user_features"
    deadline = time.monotonic() + _FINAL_S
    while time.monotonic() < deadline:
        with suppress(TableNotFoundError):
            if pc.max(DeltaTable(table).to_pyarrow_table()["day"]).as_py() == data.LAST_DAY:
                return
        time.sleep(_POLL_S)
    message = f"{table} has no rows of {data.LAST_DAY:%Y-%m-%d} after {_FINAL_S:.0f} s."
    raise RunError(message, f"Look at the log: `hybrid logs {USERS}`.", table=str(table))


def compare(folder: Path, stages: Stages) -> list[Compared]:
    """Compare all that was made with what DuckDB computes from all raw input."""
    with stages("proof: DuckDB over all raw input, without any code of the runs"):
        dsn, password = os.environ["SERVING_DSN"], os.environ["SERVING_PASSWORD"]
        return prove(folder, *_topic(""), dsn, password)


def conclusion(compared: list[Compared]) -> int:
    """Print the comparisons, and return the exit status: 0 if everything is equal, else 1."""
    table = Table("computed by DuckDB from all raw input", "rows", "equal", "superfluous")
    for each in compared:
        cells = (each.name, f"{each.expected:,}", each.share, f"{each.superfluous:,}")
        table.add_row(*cells, style=None if each.ok else "red")
    console.print(table)
    return 0 if all(each.ok for each in compared) else 1


if __name__ == "__main__":
    sys.exit(main())

"""``hybrid demo``: run both flight pipelines in Dagster, from an empty folder to audited tables.

Starts a broker, writes history, produces the first part of the feed, runs the jobs that Dagster's
UI shows, produces the rest of the feed while the streams run, and compares each table with an
independent computation: ``make demo``, or ``hybrid demo --no-ui`` where the package is installed.
With ``--ui`` (``make ui``, or ``hybrid demo``) it prepares the same, and opens Dagster's UI
instead. The exit status is 0 if all tables are correct, 1 if not, 2 if a step fails.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from dagster import DagsterInstance
from rich.console import Console
from rich.table import Table

from hybrid_extensions.comparison import terminal as comparison_terminal
from hybrid_extensions.servers.broker import LocalBroker
from hybrid_extensions.servers.process import free_ports, is_taken
from orchestration.catch_up import wait_until_caught_up
from orchestration.comparison.installed_audit import audit
from orchestration.comparison.report import AuditReport
from orchestration.operations import live_run, stopping
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError, InputError, RunError
from sources.kafka.client.address import LOCAL
from sources.kept_definitions import in_service
from sources.planning.context import PipelineContext
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from spark_jobs.jvm.jars import resolve_sets

# Relative, as `hybrid demo` has it under another name.
from . import flight_data

HERE = Path(__file__).parent
ROOT = HERE.parent
PIPELINES = ("flight_events", "flight_delays")
# Records from here on are produced while the pipelines run; earlier ones are in the topic before.
REST_FROM = datetime(2013, 12, 1, tzinfo=UTC)
FEED_RATE = 12_000  # records/s
_UI_GRACE_S = 10.0
# A folder with this file is a demo's; it says whether the rest of the feed is in the topic.
_FEED = "demo-feed.txt"
_PRODUCED = "produced"
_WORKSPACE = "workspace.yaml"

console = Console()


class Stages:
    """Stopwatch that prints the duration of each stage of a demo, and a table of all stages."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, float]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure and print the duration of a ``with`` block that succeeds."""
        started = time.monotonic()
        yield
        seconds = time.monotonic() - started
        self._rows.append((name, seconds))
        console.print(f"[dim]{seconds:6.1f} s[/]  {name}")

    def table(self) -> Table:
        """Return a table of all stages so far and their durations."""
        table = Table("stage", "seconds", title="Where the time went")
        for name, seconds in self._rows:
            table.add_row(name, f"{seconds:.1f}")
        table.add_row("total", f"{sum(seconds for _, seconds in self._rows):.1f}")
        return table


def main() -> int:
    """Run the demo with the options of the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo", help="is emptied first")
    parser.add_argument("--ui", action="store_true", help="open Dagster's UI")
    options = parser.parse_args()
    return run(options.folder, HERE, has_ui=options.ui)


def run(folder: Path, pipelines: Path, *, has_ui: bool) -> int:
    """Run the demo from an empty folder; return the exit status.

    Args:
        folder: Folder of all files that it makes; it is emptied first.
        pipelines: Folder of the pipelines' files.
        has_ui: Open Dagster's UI; otherwise run both pipelines, and audit their tables.
    """
    stages, folder = Stages(), folder.absolute()

    def do(cleanup: ExitStack) -> list[AuditReport] | int:
        loaded, rest = prepare(folder, stages, cleanup, pipelines=pipelines)
        if has_ui:
            cleanup.callback(stop_added, pipelines)
            return _open_ui(loaded, rest, folder)
        return _run(loaded, rest, stages, folder)

    return conclude(do, stages)


def start(folder: Path, *, has_ui: bool, reset: bool) -> int:
    """Run the demo in a folder of one's own, with pipelines that can be edited there.

    Args:
        folder: Folder of the pipelines, and of all that they make.
        has_ui: Open Dagster's UI. A demo that is there goes on as it was left.
        reset: Begin again if one is there.

    Returns:
        The exit status.

    Raises:
        InputError: The data is missing; or the folder holds something else, or a demo that
            was not to be begun again.
    """
    flight_data.raw_data()
    folder = folder.absolute()
    is_there = (folder / _FEED).exists()
    if folder.exists() and not is_there and any(folder.iterdir()):
        message = f"{folder} holds something else than a demo, so it is left as it is."
        raise InputError(message, "Name another folder with `--folder`.", file=str(folder))
    if is_there and not reset:
        if has_ui:
            return conclude(lambda cleanup: _open_again(folder, cleanup), Stages())
        message = f"{folder} holds a demo that was begun already."
        hint = "To begin again, add `--reset`; to go on in Dagster's UI, leave out `--no-ui`."
        raise InputError(message, hint, file=str(folder))
    return run(folder, folder / "pipelines", has_ui=has_ui)


def _open_again(folder: Path, cleanup: ExitStack) -> int:
    """Open Dagster's UI for a demo that was begun earlier."""
    _set_environment(folder, str(folder), folder / "pipelines")
    address = Path(os.environ["HYBRID_BROKER_FILE"])
    cleanup.enter_context(LocalBroker(folder / "broker", address_file=address))
    loaded = [load_pipeline(folder / "pipelines" / f"{name}.yaml") for name in PIPELINES]
    for pipeline in loaded:
        cleanup.callback(stop, pipeline)
    cleanup.callback(stop_added, folder / "pipelines")
    is_produced = (folder / _FEED).read_text() == _PRODUCED
    rest = [] if is_produced else flight_data.split_feed(flight_data.feed_records(), REST_FROM)[1]
    return _open_ui(loaded, rest, folder)


def conclude(run: Callable[[ExitStack], list[AuditReport] | int], stages: Stages) -> int:
    """Run a demo, stop whatever it started, print its audits; return the exit status.

    Args:
        run: Gets the stack that stops what was started; returns the audits, or an exit status.
        stages: Stopwatch of the demo.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt_once)
    try:
        with ExitStack() as cleanup:
            reports = run(cleanup)
    except HybridError as error:
        # As it is, so that commands in it can be copied.
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        console.print("Stopped: the streams, and all that was started for the demo.")
        return 130
    if isinstance(reports, int):
        return reports
    for report in reports:
        console.print(comparison_terminal.audit(report))
    console.print(stages.table())
    return 0 if all(report.ok for report in reports) else 1


def _interrupt_once(*_: object) -> None:
    """Interrupt for the first SIGTERM or Ctrl-C, and let no further one interrupt the clean-up.

    A signal to the whole process group of ``make`` arrives twice, as make passes it on.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    text = b"\nStopping the streams and all that was started; this takes some seconds.\n"
    os.write(sys.stderr.fileno(), text)
    raise KeyboardInterrupt


def stop(loaded: LoadedPipeline) -> None:
    """Stop the runs of a pipeline: those of its candidate and of the serving generation."""
    for each in in_service(loaded):
        stopping.stop(each)


def stop_added(pipelines: Path) -> None:
    """Stop the runs of pipelines that people have added to a demo's folder, with its broker.

    A file that can't be loaded is told, as nobody knows whether it has runs.

    Args:
        pipelines: Folder of the pipelines' files. That of a checkout, whose other pipelines are not
            of the demo, is left alone.
    """
    if pipelines == HERE:
        return
    for file in sorted(pipelines.glob("*.yaml")):
        if file.stem in PIPELINES:
            continue
        try:
            stop(load_pipeline(file))
        except HybridError as error:
            text = f"Not stopped, if it runs: the stream of {file.name}. {error}"
            console.print(text, style="red", markup=False, soft_wrap=True)


def prepare(
    folder: Path,
    stages: Stages,
    cleanup: ExitStack,
    open_lake: Callable[[], str] | None = None,
    pipelines: Path = HERE,
) -> tuple[list[LoadedPipeline], list[flight_data.FeedRecord]]:
    """Start a broker, write history, and produce the first part of the feed.

    Args:
        folder: Folder of all local files; it is emptied first.
        stages: Stopwatch.
        cleanup: Receives callbacks that stop whatever was started.
        open_lake: Returns the URL below which history, state and tables are; called once the folder
            is empty. They are in the folder if it is left out.
        pipelines: Folder of the pipelines' files; within ``folder``, they are copied there.

    Returns:
        The pipelines, and the records of the feed that are not produced yet.
    """
    servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS") or LOCAL
    with stages("jars for Spark and Kafka (downloaded once, then cached)"):
        sets = ["spark"] + ["broker"] * (servers == LOCAL) + ["s3"] * (open_lake is not None)
        resolve_sets(sets, lambda text: console.print(f"          {text}"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _FEED).write_text("")
    if pipelines != HERE:
        for each in (*HERE.glob("flight_*.yaml"), HERE / "flights.py", *HERE.glob("audits/*.sql")):
            (pipelines / each.relative_to(HERE)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(each, pipelines / each.relative_to(HERE))
    place = str(folder) if open_lake is None else open_lake()
    _set_environment(folder, place, pipelines)
    with stages("Kafka broker"):
        if servers == LOCAL:
            address = Path(os.environ["HYBRID_BROKER_FILE"])
            cleanup.enter_context(LocalBroker(folder / "broker", address_file=address))
    topic = os.environ.get("FLIGHTS_TOPIC", "flights")
    with stages("history as Parquet, first part of the feed into the topic"):
        files = flight_data.write_history(folder / "data" / "history")
        if open_lake is not None:
            _upload(files, folder, place)
        before, rest = flight_data.split_feed(flight_data.feed_records(), REST_FROM)
        flight_data.create_feed_topic(servers, topic)
        flight_data.produce(before, servers, topic)
    loaded = [load_pipeline(pipelines / f"{name}.yaml") for name in PIPELINES]
    for pipeline in loaded:
        cleanup.callback(stop, pipeline)
    return loaded, rest


def _upload(files: list[Path], folder: Path, url: str) -> None:
    """Move files of a local folder below a URL, with the same names."""
    lake = Stores(S3Settings()).folder(url)
    for file in files:
        lake.replace_bytes(str(file.relative_to(folder)), file.read_bytes())
        file.unlink()


def _set_environment(folder: Path, place: str, pipelines: Path) -> None:
    """Set the environment variables that pipelines and Dagster read.

    Args:
        folder: Folder of what is local in any case.
        place: Folder or URL of history, state and tables.
        pipelines: Folder of the pipelines' files.
    """
    home = folder / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    (home / _WORKSPACE).write_text(
        "load_from: [{python_module: {module_name: orchestration.definitions, "
        "location_name: hybrid_backfill}}]\n"
    )
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
    os.environ.update(
        DAGSTER_HOME=str(home),
        HYBRID_BROKER_FILE=str(folder / "broker.json"),
        HYBRID_PIPELINES=str(pipelines),
        FLIGHTS_DATA=f"{place}/data",
        FLIGHTS_OUT=f"{place}/tables",
        FLIGHTS_STATE=f"{place}/state",
        VIRTUAL_ENV=sys.prefix,
    )


def _run(
    loaded: list[LoadedPipeline],
    rest: list[flight_data.FeedRecord],
    stages: Stages,
    folder: Path,
) -> list[AuditReport]:
    """Run the Dagster jobs, produce the rest of the feed, stop the streams, and audit the tables.

    Raises:
        RunError: A Dagster job fails.
    """
    with (
        stages("Dagster: plan → history → live_handover → live, both pipelines"),
        # Makes Dagster's database: two processes can't both make it.
        DagsterInstance.get(),
        ThreadPoolExecutor(len(loaded)) as pool,
    ):
        list(pool.map(lambda one: launch_job(one.pipeline.name, folder), loaded))
    with stages(f"rest of the feed: {len(rest):,} records at {FEED_RATE:,} records/s"):
        source = live_source(loaded[0])
        flight_data.produce(rest, source.bootstrap_servers, source.topics[0], rate=FEED_RATE)
        (folder / _FEED).write_text(_PRODUCED)
    with stages("streams caught up and stopped"), ThreadPoolExecutor(len(loaded)) as pool:
        list(pool.map(finish, loaded))
    with stages("audit: DuckDB over all raw input"), ThreadPoolExecutor(len(loaded)) as pool:
        reports = list(pool.map(audit, loaded))
    for each in loaded:
        shown = f"Table of {each.pipeline.name}, which any reader of Delta opens: {each.target.url}"
        console.print(shown, markup=False, soft_wrap=True)
    return reports


def finish(loaded: LoadedPipeline) -> None:
    """Wait until a live run has read its topic to the end, and stop it."""
    wait_until_caught_up(PipelineContext.require(loaded))
    stopping.stop(loaded)


def launch_job(name: str, folder: Path) -> None:
    """Run a pipeline's Dagster job; its output goes to a file in the folder.

    Raises:
        RunError: The job fails; the message ends with the last lines of the output.
    """
    log = folder / f"{name}.log"
    command = [sys.executable, "-m", "dagster", "job", "execute", "-j", name]
    command += ["-m", "orchestration.definitions"]
    with log.open("wb") as output:
        done = subprocess.run(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, check=False
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        message = f"Job {name} failed with status {done.returncode}:\n{tail}"
        hint = f"Correct what the last lines name, then run the demo again. The whole log: {log}"
        raise RunError(message, hint, pipeline=name, file=str(log))


def live_source(loaded: LoadedPipeline) -> KafkaSource:
    """Return the last source of a pipeline, its topic."""
    source = loaded.pipeline.sources[-1]
    assert isinstance(source, KafkaSource)
    return source


def _open_ui(loaded: list[LoadedPipeline], rest: list[flight_data.FeedRecord], folder: Path) -> int:
    """Serve Dagster's UI until Ctrl-C; produce the rest of the feed once a live run is up.

    Returns:
        The exit status of ``dagster dev``.
    """
    feed = threading.Thread(target=_produce_when_live, args=(loaded, rest, folder), daemon=True)
    feed.start()
    port = os.environ.get("DAGSTER_PORT") or ("3000" if not is_taken(3000) else free_ports(1)[0])
    console.print("Dagster starts, which takes up to a minute.")
    threading.Thread(target=_tell_when_open, args=(int(port), loaded[0]), daemon=True).start()
    command = [sys.executable, "-m", "dagster", "dev", "-p", str(port)]
    command += ["-w", str(folder / "dagster" / _WORKSPACE)]
    # A separate process group, so that all of its processes can be ended, also by force.
    with subprocess.Popen(command, cwd=folder, start_new_session=True) as server:
        try:
            return server.wait()
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(_UI_GRACE_S)


def _tell_when_open(port: int, loaded: LoadedPipeline) -> None:
    """Wait until Dagster's UI answers, and print its address and what to do there."""
    while not is_taken(port):
        time.sleep(0.5)
    console.print(
        f"Dagster is open at http://127.0.0.1:{port}: choose the job `flight_events`, then "
        "Materialize all. Ctrl-C ends it and the streams.\n"
        f"An edit to try then: set `LATE = 10` in {loaded.path.parent / 'flights.py'}, and 10 in "
        "place of 15 in audits/flight_events.sql beside it, the audit's own computation. Launch "
        "the job `flight_events_generation` with the action RERUN. It computes the whole table "
        "again next to the one that readers see, compares the two, audits the new one, and "
        "switches readers in one commit.",
        soft_wrap=True,
    )


def _produce_when_live(
    loaded: list[LoadedPipeline], rest: list[flight_data.FeedRecord], folder: Path
) -> None:
    """Wait for the first live run, and then produce the rest of the feed slowly."""
    source = live_source(loaded[0])
    while not any(live_run.is_live(one) for one in loaded):
        time.sleep(1)
    # Before the first record: what was produced in part is not produced twice.
    (folder / _FEED).write_text(_PRODUCED)
    flight_data.produce(rest, source.bootstrap_servers, source.topics[0], rate=FEED_RATE / 40)


if __name__ == "__main__":
    sys.exit(main())

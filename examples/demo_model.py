"""``make demo-model``: features from raw files and a topic to a model, and where it is served.

Delays by airport and hour are computed from files in order of arrival, then from a live topic, and
fed to PostgreSQL meanwhile. Flights get what was known an hour before their departure, a model is
trained on it, and the features of all flights are looked up in PostgreSQL. The table is compared
with an independent computation, PostgreSQL with the table, and what is served with what was trained
on. The exit status is 0 if all of it agrees, 1 if not, 2 if a step fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from rich.table import Table

from examples import delay_model, departures, serving
from examples.demo import FEED_RATE, ROOT, Stages, conclude, console, live_source, stop
from examples.feature_servers import start_servers
from examples.flight_data import create_feed_topic, produce, split_feed
from hybrid_extensions.comparison import terminal as comparison_terminal
from hybrid_extensions.feeds.base import Comparison
from hybrid_extensions.feeds.declare import AnyFeed, PostgresFeed, feeds_of
from hybrid_extensions.feeds.delivery_loop import compare, compared_in_words, deliver_once, follow
from hybrid_extensions.training.columns import Asked
from hybrid_extensions.training.point_in_time import TrainingSet, training_set
from orchestration.catch_up import wait_until_caught_up
from orchestration.chain import ChainRun, run_chain
from orchestration.comparison.installed_audit import audit
from orchestration.comparison.report import AuditReport
from orchestration.operations import stopping
from sources.config.code.transform import SqlTransform
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import RunError
from sources.planning.context import PipelineContext
from spark_jobs.run_state.heartbeat import read_heartbeat

PIPELINE = ROOT / "examples" / "departure_delays.yaml"
_FINAL_S = 120.0
_POLL_S = 0.2
_SAMPLE = 100_000


class Proof(NamedTuple):
    """What the demo ends with.

    Attributes:
        report: Comparison of the table with an independent computation.
        sink: Comparison of PostgreSQL with the table.
        sink_text: The same as a sentence.
        agreements: Comparisons of what is served with what was trained on.
    """

    report: AuditReport
    sink: Comparison
    sink_text: str
    agreements: list[serving.Agreement]

    @property
    def ok(self) -> bool:
        """Whether everything agrees."""
        return self.report.ok and self.sink.agrees and all(each.ok for each in self.agreements)


def main() -> int:
    """Run the demo with the options of the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = ROOT / ".demo-model"
    parser.add_argument("--folder", type=Path, default=default, help="is emptied first")
    options = parser.parse_args()
    folder, stages = options.folder.absolute(), Stages()

    def run(cleanup: ExitStack) -> int:
        start_servers(folder, stages, cleanup)
        period = departures.Period()
        loaded, made = serve(period, folder, stages, cleanup)
        with stages("model"):
            errors = delay_model.evaluate(made.rows, period.history_end)
        proof = prove(loaded, made.rows, stages)
        _show_errors(errors)
        status = conclusion(proof)
        console.print(stages.table())
        return status

    return conclude(run, stages)


def serve(
    period: departures.Period, folder: Path, stages: Stages, cleanup: ExitStack
) -> tuple[LoadedPipeline, TrainingSet]:
    """Run the pipeline from history to the end of the topic, feed PostgreSQL, make a training set.

    Servers are those of ``KAFKA_BOOTSTRAP_SERVERS``, ``SERVING_DSN`` and ``SERVING_PASSWORD``.

    Args:
        period: Which departures there are.
        folder: Folder of history, table and state.
        stages: Stopwatch.
        cleanup: Receives callbacks that stop whatever was started.

    Returns:
        The pipeline, and all flights of the period with what was known an hour before each.

    Raises:
        RunError: A step of the pipeline fails.
    """
    os.environ.update(
        DEPARTURES_DATA=str(folder / "history"),
        DEPARTURES_OUT=str(folder / "tables"),
        DEPARTURES_STATE=str(folder / "state"),
    )
    loaded = load_pipeline(PIPELINE)
    source, feed = live_source(loaded), feeds_of(loaded)[0]
    with stages("history as Parquet, first part of the feed into the topic"):
        every = departures.departures()
        rows = departures.write_history(every, period, folder / "history")
        before, rest = split_feed(departures.feed_records(every, period), period.live_from)
        # In one partition the records keep their order.
        create_feed_topic(source.bootstrap_servers, source.topics[0], partitions=1)
        produce(before, source.bootstrap_servers, source.topics[0])
        console.print(f"          {rows:,} departures in files, {len(before):,} in the topic")
    cleanup.callback(stop, loaded)
    with stages("plan → history in order of arrival → live_handover → live"):
        run_chain(ChainRun(loaded, rest_requested=True))
    with (
        stages(f"rest of the feed: {len(rest):,} records, while PostgreSQL is fed"),
        _following(loaded, feed),
    ):
        produce(rest, source.bootstrap_servers, source.topics[0], rate=FEED_RATE)
        wait_until_caught_up(PipelineContext.require(loaded))
        _wait_until_final(loaded)
    with stages("stream stopped, PostgreSQL has all rows"):
        stopping.stop(loaded)
        deliver_once(loaded, feed)
    with stages("training set: what was known an hour before each flight"):
        asked = Asked(time="asked_at")
        return loaded, training_set(loaded, departures.labels(every, period), asked)


def prove(loaded: LoadedPipeline, rows: pa.Table, stages: Stages) -> Proof:
    """Compare the table with all raw input, PostgreSQL with the table and with a training set.

    Args:
        loaded: The pipeline.
        rows: The training set.
        stages: Stopwatch.
    """
    feed = feeds_of(loaded)[0]
    assert isinstance(feed, PostgresFeed)
    with stages("audit: DuckDB over all raw input; PostgreSQL beside the table"):
        report, sink = audit(loaded), compare(loaded, feed, _SAMPLE)
    with stages(f"features of {len(rows):,} flights looked up in PostgreSQL"):
        password = os.environ[feed.password_variable]
        agreements = serving.agreements(feed.dsn, password, rows)
    return Proof(report, sink, compared_in_words(feed, sink), agreements)


@contextmanager
def _following(loaded: LoadedPipeline, feed: AnyFeed) -> Iterator[None]:
    """Let PostgreSQL follow the table, as `hybrid feed` does."""
    stop_now = threading.Event()
    threads = follow(loaded, [feed], stop_now, lambda text: console.print(f"          {text}"))
    try:
        yield
    finally:
        stop_now.set()
        for each in threads:
            each.join()


def _wait_until_final(loaded: LoadedPipeline) -> None:
    """Wait until the watermark has followed the last departures, so that their hours are written.

    Raises:
        RunError: It does not in time.
    """
    transform = loaded.pipeline.transform
    assert isinstance(transform, SqlTransform)
    assert transform.watermark is not None
    delay_ms = transform.watermark.delay // timedelta(milliseconds=1)
    deadline = time.monotonic() + _FINAL_S
    while time.monotonic() < deadline:
        beat = read_heartbeat(loaded.require_generation(), live_source(loaded).name)
        times = (None, None) if beat is None else (beat.event_time_ms, beat.watermark_ms)
        if times[0] is not None and times[1] is not None and times[0] - times[1] <= delay_ms:
            return
        time.sleep(_POLL_S)
    message = f"The watermark did not follow the last departures within {_FINAL_S:.0f} s."
    hint = f"Look at the log: `hybrid logs {loaded.path}`."
    raise RunError(message, hint, pipeline=loaded.pipeline.name)


def _show_errors(errors: list[delay_model.ModelError]) -> None:
    table = Table("told by", "mean absolute error", "root mean square", title="Delay, in minutes")
    for each in errors:
        table.add_row(each.name, f"{each.mean_absolute:.2f}", f"{each.root_mean_square:.2f}")
    console.print(table)


def conclusion(proof: Proof) -> int:
    """Print the comparisons, and return the exit status: 0 if everything agrees, else 1."""
    console.print(comparison_terminal.audit(proof.report))
    console.print(proof.sink_text, markup=False)
    shares = Table("flights whose features are", "flights", "served as trained", title="Features")
    for each in proof.agreements:
        # Rounded down, so that only all of them are 100 %.
        share = f"{int(each.share * 10_000) / 100:g} %"
        shares.add_row(each.name, f"{each.rows:,}", share, style=None if each.ok else "red")
    console.print(shares)
    return 0 if proof.ok else 1


if __name__ == "__main__":
    sys.exit(main())

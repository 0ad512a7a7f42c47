"""Consistent cuts of three tables of a real database under concurrent transfers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from examples.transfers import MAKE, TABLES, Transfers, broken
from hybrid_extensions.cuts.attempt import GivenUp
from hybrid_extensions.cuts.members import load_group
from hybrid_extensions.cuts.publisher import publish
from hybrid_extensions.cuts.table import Cut, list_cuts
from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from hybrid_testing.chain import QUICK
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.inside.driver.unbounded_run import run_unbounded
from tests.e2e.case import live_of
from tests.e2e.changes.cdc_case import CdcCase, take_snapshot
from tests.e2e.in_session import run_history
from tests.hybrid_extensions.cuts.cut_contents import content, is_torn, note

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def case(
    tmp_path: Path, postgres: LocalPostgres, servers: str, connect: Connectors
) -> Iterator[CdcCase]:
    made = CdcCase(tmp_path, postgres, servers, connect)
    made.execute(*MAKE)
    yield made
    made.end()


def test_every_cut_is_the_database_at_one_commit(case: CdcCase, spark: SparkSession) -> None:
    case.capture([f"public.{name}" for name in TABLES], snapshot_mode="no_data")
    loaded = {name: pipeline(case, name) for name in TABLES}
    group = load_group([each.path for each in loaded.values()])
    cuts: list[Cut] = []
    given_up: list[str] = []
    torn: list[bool] = []
    with ExitStack() as running:
        with Transfers(case.dsn, 4, pause_s=0.1) as transfers:
            for each in loaded.values():
                take_snapshot(each)
                make_plan(each)
            with pytest.raises(StateError, match=r"No cut yet: public\.checking, public\.saving"):
                publish(group)
            for each in loaded.values():
                run_history(spark, each)
                hand_over(PipelineContext.require(each), live_of(each))
                running.enter_context(following(spark, each))
            # From the cutover on.
            for _ in range(8):
                note(publish(group, 120), cuts, given_up)
                torn.append(is_torn(group))
        # The database is quiet from here on.
        while isinstance(last := publish(group, 120), GivenUp):
            given_up.append(last.why)
    print(  # noqa: T201 - figures for the documentation
        f"{len(cuts) + 1} cuts, {len(given_up)} attempts given up, {transfers.committed} "
        f"transactions; newest versions torn in {sum(torn)} of {len(torn)} looks: {given_up}"
    )
    assert len(cuts) >= 4
    kept = list_cuts(group.folder)
    assert [each.number for each in kept] == list(range(1, len(cuts) + 2))
    assert broken(group, kept) == {}
    assert content(group, last) == content_of_database(case)
    sizes = [len(content(group, each)["transfers"]) for each in kept]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def pipeline(case: CdcCase, name: str) -> LoadedPipeline:
    def edit(document: dict[str, Any]) -> None:
        document["cuts"] = {"path": "cuts", "every": "1 s"}

    return case.pipeline(name, TABLES[name], edit=edit)


@contextmanager
def following(spark: SparkSession, loaded: LoadedPipeline) -> Iterator[None]:
    """A driver that follows the changes."""
    context, name = PipelineContext.require(loaded), live_of(loaded).name
    stop = threading.Event()
    failures: list[BaseException] = []

    def follow() -> None:
        try:
            run_unbounded(
                spark, context, name, Reporter(context, name, "test", None, beats=QUICK), stop
            )
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


def content_of_database(case: CdcCase) -> dict[str, list[tuple[Any, ...]]]:
    with psycopg.connect(case.dsn) as connection:
        return {
            name: connection.execute(
                f"SELECT {', '.join(columns)} FROM {name} ORDER BY id"
            ).fetchall()
            for name, columns in TABLES.items()
        }

"""Limits of the rate, on real runs: kept by every micro-batch, changed under way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.operations import rate_change
from orchestration.supervision.source_status import source_status
from sources.config.source.rate_limit import RateLimit
from sources.errors import InputError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.builder import build_query
from spark_jobs.inside.query.query_sources import declare_query
from tests.e2e.case import Case, live_of, windows, wrong
from tests.e2e.in_session import run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def test_a_live_run_keeps_its_limit_until_another_is_put_in_force(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(1000, 1400))

    def slow(document: dict[str, Any]) -> None:
        document["sources"][1].update(rate={"offsets": 100}, start="earliest")

    loaded = case.pipeline(slow)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    folder = loaded.require_generation().checkpoint

    def reached(batch: int) -> int:
        found = offset_log.kafka_offsets(offset_log.offset_of(folder, batch, 1))
        return sum(found.values())

    def faster() -> None:
        rate_change.change_rate(loaded, "live", RateLimit(offsets=5000))
        told = source_status(loaded, loaded.require_generation(), "live").note
        assert told is not None
        assert told.startswith("`live` is read at 5,000 offsets per second at most")
        case.produce(range(1400, 2400))

    run_live(spark, loaded, meanwhile=faster)
    last = offset_log.last_committed(folder)
    assert last is not None
    ends = [reached(batch) for batch in range(last + 1)]
    taken = [after - before for before, after in zip([0, *ends], ends, strict=False) if after]
    # 100 a second, every 200 ms.
    assert max(taken[: sum(end <= 400 for end in ends if end)]) == 20
    assert max(taken) > 500
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2400, {})


@pytest.mark.parametrize("rate", [{"files": 2}, {"rows": 400}])
def test_history_with_a_limit_is_read_to_its_end_in_the_same_batches(
    tmp_path: Path, servers: str, spark: SparkSession, rate: dict[str, int]
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(600), files=3)

    def slow(document: dict[str, Any]) -> None:
        windows(document)
        del document["sources"][1:]
        document["sources"][0].update(rate=rate, batch={"files": 1})

    loaded = case.pipeline(slow)
    make_plan(loaded)
    query = declare_query(PipelineContext.require(loaded), "history")
    assert build_query(spark, query).is_paced
    run_history(spark, loaded)
    report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)


def test_a_limit_for_nothing_is_refused(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    loaded = case.pipeline()
    make_plan(loaded)
    with pytest.raises(InputError, match="has no source `other`"):
        rate_change.change_rate(loaded, "other", RateLimit(offsets=1))
    with pytest.raises(InputError, match=r"`rate\.files` has no meaning for `live`, a topic"):
        rate_change.change_rate(loaded, "live", RateLimit(files=1))
    with pytest.raises(InputError, match=r"`rate\.rows` has no meaning for `live`, a topic"):
        rate_change.change_rate(loaded, "live", RateLimit(rows=1))
    rate_change.change_rate(loaded, "history", RateLimit(rows=1))

"""Feeds in Dagster: an asset for each, which a sensor materializes if there is something new."""

from __future__ import annotations

import threading
from pathlib import Path

import dagster as dg
import pytest

from hybrid_extensions.feeds.declare import feeds_of
from hybrid_extensions.feeds.delivery_loop import follow
from hybrid_extensions.feeds.feed_record import FeedRecord, read_record, write_record
from orchestration.pipeline_definitions import pipeline_definitions
from sources.common.times import now_ms
from tests.hybrid_extensions.feeds.feed_case import row
from tests.hybrid_extensions.feeds.test_python_function import Function
from tests.services.processes import wait_for

KEY = dg.AssetKey(["delays", "feeds", "own"])


@pytest.fixture
def case(tmp_path: Path) -> Function:
    made = Function(tmp_path)
    made.write(row(n) for n in range(3))
    return made


def look(case: Function, instance: dg.DagsterInstance) -> dg.RunRequest | dg.SkipReason:
    sensor = pipeline_definitions(case.loaded).resolve_sensor_def("delays_feeds")
    found = sensor(dg.build_sensor_context(instance=instance))
    assert isinstance(found, dg.RunRequest | dg.SkipReason)
    return found


def materialize(case: Function, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    job = pipeline_definitions(case.loaded).resolve_job_def("delays_feeds")
    return job.execute_in_process(instance=instance, raise_on_error=False)


def test_each_feed_is_downstream_of_the_table(case: Function) -> None:
    made = pipeline_definitions(case.loaded)
    node = made.resolve_asset_graph().get(KEY)
    assert node.parent_keys == {dg.AssetKey(["delays", "table"])}
    case.declare()
    without = pipeline_definitions(case.loaded)
    assert KEY not in without.resolve_asset_graph().get_all_asset_keys()
    assert not any(each.name == "delays_feeds" for each in without.sensors or [])


def test_the_sensor_asks_for_a_delivery_as_long_as_there_is_something_new(case: Function) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        asked = look(case, instance)
        assert isinstance(asked, dg.RunRequest)
        assert asked.asset_selection == [KEY]
        done = materialize(case, instance)
        assert done.success
        (event,) = done.asset_materializations_for_node("delays__feeds__own")
        assert event.metadata["version"].value == 1
        assert event.metadata["delivered"].value == "load"
        skipped = look(case, instance)
        assert isinstance(skipped, dg.SkipReason)
        assert "It has the newest version, 1." in str(skipped.skip_message)
        case.write([row(1, 1)])
        assert isinstance(look(case, instance), dg.RunRequest)


def test_the_sensor_leaves_a_feed_alone_that_a_process_follows(case: Function) -> None:
    record = FeedRecord(looked_ms=now_ms(), followed_until_ms=now_ms() + 60_000)
    write_record(case.loaded, "own", record)
    with dg.DagsterInstance.ephemeral() as instance:
        assert isinstance(look(case, instance), dg.SkipReason)
        write_record(case.loaded, "own", record.model_copy(update={"followed_until_ms": 1}))
        assert isinstance(look(case, instance), dg.RunRequest)


def test_a_follower_whose_clock_was_far_ahead_holds_no_delivery_once_it_has_ended(
    case: Function,
) -> None:
    day_ms = 86_400_000
    ahead = FeedRecord(looked_ms=now_ms() + day_ms, followed_until_ms=now_ms() + day_ms)
    write_record(case.loaded, "own", ahead)
    with dg.DagsterInstance.ephemeral() as instance:
        assert isinstance(look(case, instance), dg.RunRequest)


def test_a_follower_says_that_it_is_there_though_its_clock_was_set_back(case: Function) -> None:
    day_ms, stop = 86_400_000, threading.Event()
    case.deliver()
    (thread,) = follow(case.loaded, feeds_of(case.loaded), stop, lambda _: None)
    try:
        ahead = {"looked_ms": now_ms() + day_ms, "followed_until_ms": now_ms() + day_ms}
        found = read_record(case.loaded, "own")
        assert found is not None
        write_record(case.loaded, "own", found.model_copy(update=ahead))
        wait_for(lambda: _until_ms(case) < ahead["followed_until_ms"], "its next look")
    finally:
        stop.set()
        thread.join()


def _until_ms(case: Function) -> int:
    found = read_record(case.loaded, "own")
    assert found is not None
    return found.followed_until_ms


def test_a_delivery_that_fails_says_why(case: Function) -> None:
    case.fail(0)
    with dg.DagsterInstance.ephemeral() as instance:
        assert not materialize(case, instance).success
    found = read_record(case.loaded, "own")
    assert found is not None
    assert "the store is closed" in str(found.failure)

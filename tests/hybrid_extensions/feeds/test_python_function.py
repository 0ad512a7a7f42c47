"""A Python function as a second sink: exactly the same calls after any failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from hybrid_extensions.feeds.feed_health import feed_statuses
from hybrid_extensions.metrics.collector import PipelineCollector
from sources.common.times import now_ms
from sources.errors import InputError, RunError, StateError
from spark_jobs.table.commit_log import CommitLog
from tests.hybrid_extensions.feeds.feed_case import FeedCase, row
from tests.services.lake import Edit, lake

CODE = """
import json
from pathlib import Path

HERE = Path(__file__).parent

def remember(rows, delivery):
    stop = HERE / "fail"
    if stop.exists() and delivery.part == int(stop.read_text() or 0):
        raise ValueError("the store is closed")
    keys = [[r["id"], r["n"], r["_is_deleted"]] for r in rows.to_pylist()]
    with (HERE / "calls.jsonl").open("a") as file:
        file.write(json.dumps({**delivery._asdict(), "rows": keys}) + "\\n")

number = 17
"""


class Function(FeedCase):
    """A pipeline that feeds a function, which notes its calls."""

    def __init__(self, folder: Path, move: Edit = lambda _: None) -> None:
        (folder / "noted.py").write_text(CODE)
        self.feed = {"name": "own", "type": "python", "function": "noted:remember"}
        super().__init__(folder, self.feed, move=move)

    def calls(self) -> list[dict[str, Any]]:
        file = self.folder / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()]

    def fail(self, part: int | None) -> None:
        file = self.folder / "fail"
        if part is None:
            file.unlink()
        else:
            file.write_text(str(part))


@pytest.fixture
def case(tmp_path: Path) -> Function:
    made = Function(tmp_path)
    made.write(row(n) for n in range(3))
    return made


def test_a_function_gets_a_load_then_changes_in_the_order_of_keys(case: Function) -> None:
    case.deliver()
    case.write([row(5, 1), row(1, 1)])
    case.delete("id = 2")
    case.deliver()
    load, changes = case.calls()
    assert load == {
        "feed": "own",
        "version": 1,
        "is_load": True,
        "part": 0,
        "is_last": True,
        "rows": [[0, 0, False], [1, 0, False], [2, 0, False]],
    }
    assert changes["rows"] == [[1, 1, False], [2, None, True], [5, 1, False]]
    assert (changes["version"], changes["is_load"]) == (3, False)


def test_table_and_state_may_be_in_an_object_store(tmp_path: Path) -> None:
    with lake("s3", tmp_path) as move:
        case = Function(tmp_path, move)
        case.write(row(n) for n in range(3))
        case.deliver()
        case.write([row(1, 1)])
        with case.follower() as first:
            assert first.deliver().kind == "changes"
            with pytest.raises(StateError, match="Another follower feeds `own` now"):
                case.deliver()
        load, changes = case.calls()
        assert (len(load["rows"]), changes["rows"]) == (3, [[1, 1, False]])
        (found,) = feed_statuses(case.loaded)
        # A follower records what it did; this one only delivered.
        assert (found.number, found.behind) == (1, 1)


def test_a_call_that_failed_is_repeated_as_it_was(case: Function) -> None:
    case.deliver()
    case.write([row(1, 1), row(2, 1)])
    case.fail(0)
    with pytest.raises(RunError, match=r"noted.py:\d+: .*the store is closed") as caught:
        case.deliver()
    assert caught.value.transient
    # Key 1 changes back: nothing that is worked out later would have it.
    case.write([row(1, 0), row(0, 1)])
    case.fail(None)
    case.deliver()
    repeated, next_one = case.calls()[1:]
    assert (repeated["version"], repeated["rows"]) == (2, [[1, 1, False], [2, 1, False]])
    assert (next_one["version"], next_one["rows"]) == (3, [[0, 1, False], [1, 0, False]])


def test_a_load_that_failed_begins_again(case: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid_extensions.feeds.rows.BATCH_ROWS", 2048)
    case.write(row(n) for n in range(6000))
    case.fail(1)
    with pytest.raises(RunError):
        case.deliver()
    case.fail(None)
    case.write([row(9000)])
    case.deliver()
    calls = case.calls()
    assert [(each["version"], each["part"], each["is_last"]) for each in calls] == [
        (2, 0, False),
        (3, 0, False),
        (3, 1, False),
        (3, 2, True),
    ]
    assert sum(len(each["rows"]) for each in calls[1:]) == 6001


def test_an_interrupted_delivery_whose_version_is_gone_becomes_a_load(case: Function) -> None:
    case.deliver()
    case.write([row(1, 1)])
    case.fail(0)
    with pytest.raises(RunError):
        case.deliver()
    (case.target / "_delta_log" / f"{2:020d}.json").unlink()
    case.write([row(1, 2)])
    case.fail(None)
    done = case.deliver()
    assert (done.kind, done.why) == ("load", "version 2, of which a part was delivered, is gone")


def test_one_follower_at_a_time_calls_it(case: Function) -> None:
    with case.follower() as first:
        first.deliver()
        with pytest.raises(StateError, match="Another follower feeds `own` now"):
            case.deliver()
    assert case.deliver().kind == "none"


@pytest.mark.parametrize(
    ("function", "told"),
    [("noted:missing", "can't be imported"), ("noted:number", "is not a function")],
)
def test_a_function_that_is_none_is_refused(case: Function, function: str, told: str) -> None:
    case.declare({**case.feed, "function": function})
    with pytest.raises(InputError, match=told):
        case.deliver()


class TestStatus:
    def test_it_says_how_far_the_feed_is(self, case: Function) -> None:
        (before,) = feed_statuses(case.loaded)
        assert (before.is_healthy, before.number, before.looked_ms) == (False, None, None)
        case.deliver()
        (now,) = feed_statuses(case.loaded)
        assert (now.is_healthy, now.number, now.behind, now.lag_s) == (True, 1, 0, 0.0)
        before_ms = now_ms()
        case.write([row(1, 1)])
        case.write([row(1, 2)])
        (later,) = feed_statuses(case.loaded)
        assert (later.is_healthy, later.number, later.behind) == (True, 1, 2)
        assert later.lag_s is not None
        assert 0 < later.lag_s * 1000 <= now_ms() - before_ms

    def test_a_feed_that_lags_too_long_is_not_healthy(self, case: Function) -> None:
        case.declare({**case.feed, "max_lag": "0 s"})
        case.deliver()
        case.write([row(1, 1)])
        (found,) = feed_statuses(case.loaded)
        assert not found.is_healthy

    def test_it_has_the_last_failure_until_a_delivery_succeeds(self, case: Function) -> None:
        case.fail(0)
        with pytest.raises(RunError):
            case.deliver()
        (failed,) = feed_statuses(case.loaded)
        assert "the store is closed" in failed.text
        case.fail(None)
        case.deliver()
        (good,) = feed_statuses(case.loaded)
        assert (good.failure, good.text) == (None, "It has the newest version, 1.")

    def test_metrics_say_the_same(self, case: Function) -> None:
        case.deliver()
        case.write([row(1, 1)])
        registry = CollectorRegistry()
        registry.register(PipelineCollector([case.path]))
        labels = {"pipeline": "delays", "feed": "own"}
        assert registry.get_sample_value("hybrid_feed_behind_versions", labels) == 1
        assert registry.get_sample_value("hybrid_feed_healthy", labels) == 1
        assert registry.get_sample_value("hybrid_feed_agreeing_share", labels) is None

    def test_a_table_that_was_set_back_is_not_healthy(self, case: Function) -> None:
        case.write([row(1, 1)])
        case.deliver()
        (case.target / "_delta_log" / f"{2:020d}.json").unlink()
        (found,) = feed_statuses(case.loaded)
        assert (found.is_healthy, found.behind) == (False, None)

    def test_a_log_that_cannot_be_read_is_told_and_fails_no_status(
        self, case: Function, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        case.deliver()
        case.write([row(1, 1)])
        monkeypatch.setattr(CommitLog, "read", refuse)
        (found,) = feed_statuses(case.loaded)
        assert not found.is_healthy
        assert found.text == "The feed's progress is not known. [Errno 13] Permission denied"

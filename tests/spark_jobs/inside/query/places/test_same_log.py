"""A followed topic has to stay the one that was read, and to hold what was read of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sources.config.source.rate_limit import RateLimit
from sources.errors import SeamError
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.inside.query.places.topic_places import FollowedTopicPlace
from tests.e2e.case import Case, live_of
from tests.e2e.seam.test_changed_logs import created_again

pytestmark = pytest.mark.kafka


@pytest.fixture
def case(tmp_path: Path, servers: str) -> Case:
    case = Case(tmp_path, servers, partitions=2)
    case.write_history()
    case.produce(range(900, 1100))
    return case


def place_of(case: Case, reached: list[int]) -> FollowedTopicPlace:
    """The place of the topic, whose partitions were read up to these offsets."""
    loaded = case.pipeline()
    make_plan(loaded)
    context = PipelineContext.require(loaded)
    offsets = {case.topic: {str(at): offset for at, offset in enumerate(reached)}}
    checkpoint = case.folder / "state" / "events" / "g1" / "checkpoint"
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
        lines = ["v1", "{}", "-", json.dumps(offsets)]
        (checkpoint / folder / "0").write_text("\n".join(lines))
    seam: Any = SimpleNamespace(start=SimpleNamespace(offsets=dict))
    live = live_of(loaded)
    return FollowedTopicPlace(context, live, seam, index=1, rate=RateLimit(), prepared=None)


def test_a_topic_that_holds_all_that_was_read_is_read_on(case: Case) -> None:
    place_of(case, [100, 100]).require_same_log()


def test_a_topic_that_was_created_again_and_has_grown_further_is_refused(case: Case) -> None:
    place = place_of(case, [100, 100])
    created_again(case, range(2000, 3000))
    with pytest.raises(SeamError, match=f"`{case.topic}` is not the planned one"):
        place.require_same_log()


def test_a_log_that_ends_before_what_was_read_is_refused(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(case, [100, 100])
    planned = KafkaLog(live_of(case.pipeline())).identities()
    created_again(case, range(2000, 2180))
    # As after an election: the topic is the same.
    monkeypatch.setattr(KafkaLog, "identities", lambda _: planned)
    with pytest.raises(
        SeamError, match=r"partition 0 was known up to offset 100.* ends at 90"
    ) as it:
        place.require_same_log()
    assert (it.value.transient, it.value.fields["partition"]) == (False, 0)

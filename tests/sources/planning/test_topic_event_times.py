"""What a plan says of a topic's event times that can't be right; nothing else follows from it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sources.common.times import to_ms
from sources.planning.plan import Plan, make_plan
from tests.e2e.case import Case, moment

pytestmark = pytest.mark.kafka
FUTURE = datetime(2099, 12, 31, tzinfo=UTC)


def plan_with_one_of_2099(folder: Path, servers: str, policy: str) -> tuple[Case, Plan]:
    case = Case(folder, servers)
    case.write_history(range(60))
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for n in range(50, 100):
        at = FUTURE if n == 70 else moment(n)
        value = json.dumps({"id": n, "at": at.isoformat(), "v": n / 2})
        producer.produce(case.topic, value, timestamp=to_ms(moment(n)))
    assert producer.flush(30) == 0

    def edit(document: dict[str, Any]) -> None:
        document["event_time"] = {"column": "at", "outside": policy}
        document["allowed_lateness"] = "5 min"

    return case, make_plan(case.pipeline(edit))


def test_a_record_of_2099_in_the_sample_is_shown_with_its_place(
    tmp_path: Path, servers: str
) -> None:
    case, plan = plan_with_one_of_2099(tmp_path, servers, "fail")
    (topic,) = plan.topics
    times = topic.event_times
    assert times.outside == 1
    # The topic starts where history is complete.
    assert (times.lowest_ms, times.highest_ms) == (to_ms(moment(54)), to_ms(moment(99)))
    (warning,) = plan.warnings
    assert warning.startswith(
        "Source `live`: of 46 sampled records, 1 has a time in `at` that does not count, first "
        f"topic `{case.topic}`, partition 0, offset 20, with 2099-12-31T00:00:00Z."
    )


@pytest.mark.parametrize("policy", ["drop", "quarantine", "keep"])
def test_where_a_policy_takes_care_of_it_the_plan_only_counts_it(
    tmp_path: Path, servers: str, policy: str
) -> None:
    _, plan = plan_with_one_of_2099(tmp_path, servers, policy)
    (topic,) = plan.topics
    assert topic.event_times.outside == 1
    # Before, it ran ahead of its record timestamp by 76 years.
    assert plan.warnings == []

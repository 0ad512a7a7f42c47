"""The checks of a hand-over, on a real broker: what holds up a launch, and what is only told."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from sources.errors import SeamError, StateError
from sources.hand_over import hand_over
from sources.hand_over_checks import CHECKS, Check, check_hand_over, require_sound
from sources.planning.context import PipelineContext
from tests.e2e.case import Case, live_of
from tests.sources.hand_over_case import (
    delete_below,
    documents,
    hand_over_anew,
    hand_over_in_part,
    live,
    prepared,
    up_to_hand_over,
)

pytestmark = pytest.mark.kafka


def checks(case: Case) -> dict[str, Check]:
    loaded = case.pipeline()
    return {
        check.name: check
        for check in check_hand_over(PipelineContext.require(loaded), live_of(loaded))
    }


def test_a_good_hand_over_passes_its_checks(tmp_path: Path, servers: str) -> None:
    case = prepared(tmp_path, servers)
    loaded = up_to_hand_over(case.pipeline())
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    found = checks(case)
    assert list(found) == list(CHECKS)
    assert all(check.passed for check in found.values())
    assert {name: dict(check.numbers) for name, check in found.items()} == {
        "no_gap": {"partitions": 1, "gaps": 0},
        "no_duplicates": {"offsets in the seam": 1500 - 399},
        "retention": {"offsets lost": 0, "partitions gone": 0},
        "schema": {"records looked at": 100},
    }
    require_sound(PipelineContext.require(loaded), live_of(loaded))


def test_an_accepted_gap_turns_its_check_red_but_holds_up_nothing(
    tmp_path: Path, servers: str
) -> None:
    case = prepared(tmp_path, servers)
    loaded = up_to_hand_over(case.pipeline(live(on_gap="accept")))
    delete_below(case, 420)
    (line,) = hand_over(PipelineContext.require(loaded), live_of(loaded)).entries
    gap = checks(case)["no_gap"]
    assert (gap.passed, gap.accepted) == (False, True)
    assert gap.text == f"topic `{case.topic}`, partition 0: {line.gap}"
    require_sound(PipelineContext.require(loaded), live_of(loaded))


def test_an_overlap_that_nobody_filters_turns_its_check_red_but_holds_up_nothing(
    tmp_path: Path, servers: str
) -> None:
    case = prepared(tmp_path, servers)
    loaded = up_to_hand_over(case.pipeline(lambda document: document.update(seam_filter="off")))
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    found = {
        check.name: check
        for check in check_hand_over(PipelineContext.require(loaded), live_of(loaded))
    }
    assert [name for name, check in found.items() if not check.passed] == ["no_duplicates"]
    assert found["no_duplicates"].accepted
    assert found["no_duplicates"].text.endswith("`seam_filter: off`: rows in both come twice.")
    require_sound(PipelineContext.require(loaded), live_of(loaded))


def test_a_record_that_does_not_fit_turns_its_check_red_and_holds_up_the_launch(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 950))
    loaded = up_to_hand_over(case.pipeline())
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(case.topic, b'{"id": "x"}', partition=0, timestamp=1704200000000)
    assert producer.flush(30) == 0
    found = checks(case)
    assert [name for name, check in found.items() if not check.passed] == ["schema"]
    assert 'string, as in "x"' in found["schema"].text
    assert found["schema"].numbers == {"records looked at": 950 - 899 + 1}
    with pytest.raises(SeamError, match="Check `schema` of source `live` fails"):
        require_sound(PipelineContext.require(loaded), live_of(loaded))


def test_records_deleted_since_turn_the_check_of_retention_red_and_hold_up_the_launch(
    tmp_path: Path, servers: str
) -> None:
    case = prepared(tmp_path, servers)
    loaded = up_to_hand_over(case.pipeline())
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    delete_below(case, 450)
    retention = checks(case)["retention"]
    assert not retention.passed
    assert retention.numbers["offsets lost"] == 450 - 399
    with pytest.raises(SeamError, match="Check `retention` of source `live` fails"):
        require_sound(PipelineContext.require(loaded), live_of(loaded))


def test_records_deleted_between_start_and_ledger_hold_up_the_launch_as_lost(
    tmp_path: Path, servers: str
) -> None:
    case = prepared(tmp_path, servers)
    loaded = up_to_hand_over(case.pipeline())
    hand_over_in_part(loaded)
    delete_below(case, 450)

    def launch() -> None:
        hand_over_anew(case)
        require_sound(PipelineContext.require(loaded), live_of(loaded))

    with pytest.raises(SeamError, match="51 offsets"):
        launch()


def test_checks_write_nothing_and_name_the_step_that_completes_a_hand_over(
    tmp_path: Path, servers: str
) -> None:
    case = prepared(tmp_path, servers)
    loaded = up_to_hand_over(case.pipeline())
    hand_over_in_part(loaded)
    before = documents(tmp_path / "state")
    for check in (check_hand_over, require_sound):
        with pytest.raises(StateError, match="Run `hybrid step P live_handover`"):
            check(PipelineContext.require(loaded), live_of(loaded))
    assert documents(tmp_path / "state") == before

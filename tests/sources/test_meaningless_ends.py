"""Ends of history that mean nothing, on a real broker: refused by the plan and by the hand-over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sources.errors import SeamError
from sources.hand_over import hand_over
from sources.kafka.start.declared_start import GapError
from sources.planning.context import PipelineContext
from sources.planning.plan import draft_plan
from tests.e2e.case import Case, live_of
from tests.sources.hand_over_case import (
    delete_below,
    documents,
    live,
    prepared,
    up_to_hand_over,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

IN_FEBRUARY = 45_000  # a month after all other events


def with_wrong_clock(folder: Path, servers: str) -> Case:
    """Events 0 to 999 in files, and one of February; 1,200 to 1,999 are left in the topic."""
    case = prepared(folder, servers)
    case.write_history([IN_FEBRUARY], files=1, name=lambda *_: "wrong.parquet")
    delete_below(case, 700)
    return case


@pytest.mark.parametrize(
    "start", ["previous", "earliest", {"timestamp": "2024-01-01T12:00:00Z"}, {"offsets": {0: 700}}]
)
def test_one_row_of_next_month_does_not_hide_the_hole_before_any_start(
    tmp_path: Path, servers: str, start: Any
) -> None:
    case = with_wrong_clock(tmp_path, servers)
    with pytest.raises(GapError) as caught:
        draft_plan(case.pipeline(live(start=start)))
    assert caught.value.fields["field"] == "complete_through"
    assert "Declare `complete_through` for source `history`" in caught.value.hint

    def mended(document: dict[str, Any]) -> None:
        live(start=start)(document)
        document["sources"][0]["complete_through"] = "2024-01-01T15:00:00Z"

    # Now the hole itself is seen: the records of events 900 to 1,199 are in neither.
    with pytest.raises(GapError) as caught:
        draft_plan(case.pipeline(mended))
    assert "field" not in caught.value.fields
    assert not (tmp_path / "state").exists()


def without_key(document: dict[str, Any]) -> None:
    del document["key"]
    document["event_time"] = {"column": "at", "not_after": "2030-01-01T00:00:00Z"}
    document["sources"][0]["complete_through"] = "2024-01-01T15:00:00Z"


def test_a_filter_that_would_remove_all_of_the_topic_is_refused_by_the_plan(
    tmp_path: Path, servers: str
) -> None:
    case = prepared(tmp_path, servers)
    case.write_history([IN_FEBRUARY], files=1, name=lambda *_: "wrong.parquet")
    with pytest.raises(SeamError, match="would probably remove every row of topic") as caught:
        draft_plan(case.pipeline(without_key))
    assert caught.value.fields["field"] == "event_time.not_after"


def test_the_hand_over_refuses_too_and_leaves_nothing(tmp_path: Path, servers: str) -> None:
    case = prepared(tmp_path, servers)
    case.write_history([IN_FEBRUARY], files=1, name=lambda *_: "wrong.parquet")

    def accepting(document: dict[str, Any]) -> None:
        without_key(document)
        live(on_gap="accept")(document)

    # Planned while it was accepted.
    up_to_hand_over(case.pipeline(accepting))
    loaded = case.pipeline(without_key)
    before = documents(tmp_path / "state")
    with pytest.raises(SeamError, match="would probably remove every row of topic"):
        hand_over(PipelineContext.require(loaded), live_of(loaded))
    assert documents(tmp_path / "state") == before

"""A hand-over on a real broker, without Spark: made once, wherever the chain breaks off."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from sources.common.positions import TopicPartition
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import StateError
from sources.hand_over import hand_over
from sources.hand_over_checks import check_hand_over, require_sound
from sources.kafka.start.declared_start import GapError
from sources.ledger import LedgerEntry, read_ledger
from sources.planning.context import PipelineContext
from sources.planning.files.rounds import history_of, next_round
from sources.planning.plan import draft_plan, make_plan
from tests.e2e import case as declared
from tests.e2e.case import Case, live_of, moment
from tests.sources.hand_over_case import (
    decided,
    delete_below,
    documents,
    finish,
    hand_over_anew,
    hand_over_in_part,
    live,
    prepared,
    up_to_hand_over,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_the_ledger_tells_where_each_partition_starts_and_how_far_files_and_topic_overlap(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers, partitions=3)
    case.write_history()
    case.produce(n for n in range(500, 2000) if n % 3)
    loaded = up_to_hand_over(case.pipeline())
    ledger = hand_over(PipelineContext.require(loaded), live_of(loaded))
    assert (ledger.source, ledger.decided_by, ledger.rule) == ("live", "timestamp", "key")
    assert ledger.previous is not None
    assert ledger.previous.source == "history"
    no_match = "no record at or after 2024-01-01T14:59:00Z: end offset read before the look-up"
    match = "first record at or after 2024-01-01T14:59:00Z"
    # Events 901 and 899 are the first ones of their partitions that are late enough.
    assert ledger.entries == [
        entry(case, 0, start=0, why=no_match, first=None, seam_end=0),
        entry(case, 1, start=133, why=match, first=901, seam_end=500),
        entry(case, 2, start=133, why=match, first=899, seam_end=500),
    ]


def entry(
    case: Case, partition: int, *, start: int, why: str, first: int | None, seam_end: int
) -> LedgerEntry:
    return LedgerEntry(
        topic=case.topic,
        partition=partition,
        start=start,
        why=why,
        log_start=0,
        first_offset=None if first is None else start,
        first_ms=None if first is None else event_ms(first),
        seam_end=seam_end,
        overlap=seam_end - start,
        gap=None,
    )


def event_ms(number: int) -> int:
    return int(moment(number).timestamp() * 1000)


def test_the_seam_ends_where_the_topic_ended_when_history_was_listed(
    tmp_path: Path, servers: str
) -> None:
    case = prepared(tmp_path, servers)
    loaded = case.pipeline()
    make_plan(loaded)
    case.produce(range(2000, 2100))
    finish(loaded)
    (line,) = hand_over(PipelineContext.require(loaded), live_of(loaded)).entries
    assert (line.seam_end, line.overlap) == (1500, 1500 - 399)


def test_a_crash_between_start_and_ledger_is_repaired_with_the_same_offsets(
    tmp_path: Path, servers: str
) -> None:
    # No record is as late as history is complete: the topic starts at its end of that moment.
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 890))
    loaded = up_to_hand_over(case.pipeline())
    hand_over_in_part(loaded)
    kept = decided(loaded)
    assert kept is not None
    assert kept.offsets() == {TopicPartition(case.topic, 0): 390}
    assert read_ledger(loaded.require_generation(), "live") == (None, None)
    case.produce(range(890, 1200))
    assert start_if_decided_now(loaded) == 399
    ledger = hand_over_anew(case)
    assert [line.start for line in ledger.entries] == [390]
    assert decided(loaded) == kept
    assert hand_over_anew(case) == ledger


def start_if_decided_now(loaded: LoadedPipeline) -> int:
    plan, _ = draft_plan(loaded)
    assert plan.topic is not None
    (start,) = plan.topic.expected_start.offsets().values()
    return start


def test_the_users_factory_is_asked_for_the_plan_and_once_for_the_hand_over(
    tmp_path: Path, servers: str
) -> None:
    case = prepared(tmp_path, servers)
    # Each answer is another one.
    (tmp_path / "where_counted.py").write_text(
        "seen = []\n"
        "def start(context):\n"
        "    seen.append(context.previous)\n"
        "    return {0: len(seen)}\n"
    )
    loaded = up_to_hand_over(case.pipeline(live(start={"factory": "where_counted:start"})))
    hand_over_in_part(loaded)
    ledger = hand_over_anew(case)
    assert hand_over_anew(case) == ledger
    assert [line.start for line in ledger.entries] == [2]
    assert sys.modules["where_counted"].seen == [ledger.previous] * 2


POINTS: dict[str, list[Callable[[LoadedPipeline], object]]] = {
    "nothing planned": [],
    "state opened": [lambda loaded: loaded.open_generation(create=True)],
    "planned": [make_plan],
    "history finished": [make_plan, finish],
    "start decided": [make_plan, finish, hand_over_in_part],
    "ledger written": [
        make_plan,
        finish,
        lambda loaded: hand_over(PipelineContext.require(loaded), live_of(loaded)),
    ],
}


@pytest.mark.parametrize("point", POINTS)
def test_wherever_the_chain_broke_off_it_ends_with_the_same_hand_over(
    tmp_path: Path, servers: str, point: str
) -> None:
    case = prepared(tmp_path, servers)
    loaded = case.pipeline()
    for step in POINTS[point]:
        step(loaded)
    before = documents(tmp_path / "state")
    # Whoever goes on knows the pipeline's file and its state folder; the topic has grown, and
    # what was planned is not looked at again.
    case.produce(range(2000, 2100))
    if make_plan in POINTS[point]:
        remove_files(tmp_path)
    restored = load_pipeline(loaded.path)
    plan = make_plan(restored)
    remove_files(tmp_path)
    finish(restored)
    ledger = hand_over(PipelineContext.require(restored), live_of(restored))
    assert [(line.start, line.first_offset) for line in ledger.entries] == [(399, 399)]
    assert (ledger.previous, ledger.rule) == (plan.files_of("history").end, "key")
    after = documents(tmp_path / "state")
    assert {path: after[path] for path in before} == before


def remove_files(folder: Path) -> None:
    for file in (folder / "in").iterdir():
        file.unlink()


def test_nothing_is_handed_over_out_of_turn(tmp_path: Path, servers: str) -> None:
    loaded = prepared(tmp_path, servers).pipeline()
    with pytest.raises(StateError, match="has no state in"):
        hand_over(PipelineContext.require(loaded), live_of(loaded))
    assert not (tmp_path / "state").exists()
    make_plan(loaded)
    before = documents(tmp_path / "state")
    with pytest.raises(
        StateError, match="`live` can't start: source `history`, which comes before it"
    ):
        hand_over(PipelineContext.require(loaded), live_of(loaded))
    for check in (check_hand_over, require_sound):
        with pytest.raises(StateError, match="`live` has no start offsets yet"):
            check(PipelineContext.require(loaded), live_of(loaded))
    assert documents(tmp_path / "state") == before


def test_a_hand_over_that_is_refused_leaves_nothing_and_may_be_made_later(
    tmp_path: Path, servers: str
) -> None:
    case = prepared(tmp_path, servers)
    loaded = up_to_hand_over(case.pipeline())
    before = documents(tmp_path / "state")
    delete_below(case, 420)
    with pytest.raises(GapError, match="the log starts at offset 420"):
        hand_over(PipelineContext.require(loaded), live_of(loaded))
    assert documents(tmp_path / "state") == before
    accepting = case.pipeline(live(on_gap="accept"))
    (line,) = hand_over(PipelineContext.require(accepting), live_of(accepting)).entries
    assert line.start == 420
    assert "the log starts at offset 420" in (line.gap or "")


def test_three_sources_take_their_turns_and_the_last_starts_where_the_second_ends(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    write_files(case, "old", range(500))
    write_files(case, "recent", range(500, 1000))
    case.produce()
    loaded = case.pipeline(old_and_recent)
    make_plan(loaded)
    with pytest.raises(
        StateError,
        match="`live` can't start: source `old`, which comes before it, has not finished",
    ):
        hand_over(PipelineContext.require(loaded), live_of(loaded))
    with pytest.raises(
        StateError, match="`recent` can't start: source `old`, which comes before it"
    ):
        finish(loaded, "recent")
    finish(loaded, "old")
    with pytest.raises(
        StateError,
        match="`live` can't start: source `recent`, which comes before it, has not finished",
    ):
        hand_over(PipelineContext.require(loaded), live_of(loaded))
    finish(load_pipeline(loaded.path), "old", "recent")
    ledger = hand_over_anew(case)
    assert ledger.previous is not None
    assert (ledger.previous.source, ledger.previous.rows) == ("recent", 500)
    assert [line.start for line in ledger.entries] == [399]


def write_files(case: Case, folder: str, numbers: Iterable[int]) -> None:
    case.write_history(numbers, files=2)
    (case.folder / "in").rename(case.folder / folder)


def old_and_recent(document: dict[str, Any]) -> None:
    history, topic = document["sources"]
    document["sources"] = [
        {**history, "name": "old", "path": "old/*.parquet"},
        {**history, "name": "recent", "path": "recent/*.parquet"},
        topic,
    ]


def test_a_round_that_was_planned_belongs_to_history_after_a_restart(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(600))
    case.produce(range(500, 1500))
    growing = case.pipeline(
        lambda document: document["sources"][0].update(converge={"gap": "3 hours"})
    )
    plan = make_plan(growing)
    case.write_history(range(600, 1400), files=2, name=lambda at, _: f"later-{at}.parquet")
    case.produce(range(1500, 1510))
    made = next_round(PipelineContext.require(growing), declared.history_of(growing))
    assert made is not None
    # What lands once the round is written down is not in it.
    case.write_history(range(1400, 1500), files=1, name=lambda *_: "last.parquet")
    restored = load_pipeline(growing.path)
    generation = restored.require_generation()
    history = history_of(generation, make_plan(restored), "history")
    assert history.parts == [plan.files_of("history"), made.files]
    assert (history.end.splits, history.end.rows) == (6, 1400)
    assert history.end.event_time_ms == event_ms(1399)
    assert history.seam_end == made.seam_end == {TopicPartition(case.topic, 0): 1010}
    assert next_round(PipelineContext(restored, generation), declared.history_of(restored)) is None
    finish(restored)
    assert [line.start for line in hand_over_anew(case).entries] == [1299 - 500]


def test_a_topic_without_history_starts_as_declared(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.produce()

    def alone(document: dict[str, Any]) -> None:
        columns = {"id": "bigint", "at": "timestamp", "v": "double"}
        document["sources"] = [{**document["sources"][1], "start": "earliest", "schema": columns}]

    loaded = case.pipeline(alone)
    make_plan(loaded)
    ledger = hand_over(PipelineContext.require(loaded), live_of(loaded))
    assert (ledger.previous, ledger.decided_by, ledger.rule) == (None, "fixed", "none")
    assert [(line.start, line.overlap) for line in ledger.entries] == [(0, 0)]

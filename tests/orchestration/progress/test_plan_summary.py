"""A plan in plain sentences says what is read, what may be in both, where rows go, how long."""

from __future__ import annotations

from typing import Any

import pytest

from orchestration.progress.expected_time import Estimate
from orchestration.progress.plan_preview import Preview
from orchestration.progress.plan_summary import summary
from orchestration.progress.plan_tables import plan_tables
from sources.config.pipeline import Pipeline
from sources.planning.files.copied_files import CopiedFiles, RewrittenFiles
from sources.planning.plan import Plan
from tests.orchestration.progress.plan_case import (
    FILES,
    HISTORY,
    KAFKA,
    LIVE,
    SNAPSHOT,
    end,
    files,
    folder,
    held,
    ms,
    pipeline,
    plan,
    topic,
)

READS = "Reads 273 files, 6.4 MB, 252,392 rows (1 Jan 2013 to 30 Sep 2013)."
CONTINUES = "Kafka continues from 29 Sep 2013 23:56 UTC; "
HELD = "(all that Kafka held from there on when the files were listed)"
BOTH = f"at most 57,102 records may be in both {HELD}"
WRITES = "Writes to `out`, each row added once, by `id`."
GUESS = Estimate(seconds=55, executor_hours=0.01, is_guess=True, basis="a guess")
UPSERT = {"path": "out", "mode": "merge", "key": ["id"]}


def told(declared: Pipeline, made: Plan, estimate: Estimate = GUESS) -> str:
    counts = {part.source: 273 for part in made.listed}
    return summary(declared, made, counts, "out", estimate)


def test_the_usual_plan_in_full() -> None:
    sink = {"path": "out", "mode": "merge", "key": ["id", "at"]}
    assert told(pipeline(sink=sink), plan(files(), topic())) == (
        f"{READS} {CONTINUES}{BOTH}, duplicates are removed by key. "
        "Writes to `out`, upsert by `id`, `at`. About 1 min: a guess; the first run will tell."
    )


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (files(rows=None), "Reads 273 files, 6.4 MB, rows not counted yet ("),
        (files(rows=1), "6.4 MB, 1 row ("),
        (files(until=end(event_times="sampled")), "to 30 Sep 2013, by a sample)."),
        (
            files(until=end(snapshot=SNAPSHOT)),
            "The files of `history` are a snapshot of a table, taken 29 Sep 2013 23:56 UTC.",
        ),
    ],
)
def test_what_is_read_from_files(part: Any, text: str) -> None:
    assert text in told(pipeline(), plan(part, topic()))


def test_which_files_are_copied_is_said_with_the_reason_why_others_are_not() -> None:
    copied = CopiedFiles(files=273, bytes=6_400_000)
    made = plan(files(copied=copied), topic())
    assert "All files of `history` are copied into the table as they are." in told(pipeline(), made)
    others = [RewrittenFiles(why="it is encoded", files=3, such_as="in/a.parquet")]
    made = plan(files(copied=CopiedFiles(files=270, bytes=6_000_000, rewritten=others)), topic())
    said = told(pipeline(), made)
    assert "Of `history`, 270 of 273 files (6.0 MB) are copied into the table as they are" in said
    assert "such as those of in/a.parquet: it is encoded." in said
    seen = Preview.model_construct(schemas={}, files={}, previous=None, changes=[])
    (table,) = [each for each in plan_tables(made, seen) if "written again" in each.title]
    assert [row["files"] for row in table.rows] == ["3"]
    assert Plan.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize(
    ("every", "text"), [("10 min", "10 min"), (1000, "1,000 offsets"), (1, "1 offset")]
)
def test_the_order_of_arrival_is_said_with_what_it_means(every: Any, text: str) -> None:
    order = {"arrival": "arrived", "every": every}
    made = plan(files(order=order), topic())
    assert (
        f"`history` is replayed in order of arrival (`arrived`), as a live run that reads {text} "
        "at a time would have read it: a row that came late is late"
    ) in told(pipeline(), made)
    assert Plan.model_validate_json(made.model_dump_json()) == made
    assert "order of arrival" not in told(pipeline(), plan(files(), topic()))


def test_the_reading_order_says_whether_late_rows_are_late() -> None:
    order = {"arrival": "arrived", "every": "10 min"}
    made = plan(files(), files("more", order=order), topic())
    counts = {part.source: 273 for part in made.listed}
    seen = Preview(summary="", files=counts, estimate=GUESS, schemas={}, previous=None, changes=[])
    (shown,) = (each.rows for each in plan_tables(made, seen) if each.title == "reading order")
    assert [row["order"] for row in shown] == [
        "event time: rows that came late count as if on time",
        "arrival (`arrived`), 10 min at a time: rows that came late are late",
    ]


def test_several_bounded_sources_are_counted_together_and_named_in_order() -> None:
    declared = pipeline({**FILES, "name": "old"}, HISTORY, LIVE)
    old = end("old", event_time_ms=ms(2012, 6, 1))
    made = plan(files("old", old, since_ms=ms(2012, 1, 1), rows=8), files(), topic())
    text = told(declared, made)
    assert "Reads 546 files, 12.8 MB, 252,400 rows of `old`, then `history` (1 Jan 2012" in text
    assert " to 30 Sep 2013)." in text
    many = [f"s{number}" for number in range(9)]
    declared = pipeline(*({**FILES, "name": name} for name in many))
    assert "rows of 9 sources (" in told(declared, plan(*map(files, many)))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("none", "no record is in both."),
        ("key", f"{BOTH}, duplicates are removed by key."),
        ("event_time", f"{BOTH}, duplicates are removed by event time."),
        ("sequence", f"{BOTH}, duplicates are removed by log position."),
        ("replay", f"{BOTH} and are merged again in the order of `at`."),
        ("off", f"{BOTH}, duplicates are kept, as `seam_filter` is off."),
    ],
)
def test_what_becomes_of_records_that_history_has_too(rule: Any, text: str) -> None:
    declared = pipeline(sink={**UPSERT, "sequence": "at"})
    assert f"{CONTINUES}{text} Writes" in told(declared, plan(files(), topic(rule)))


def test_without_an_overlap_no_record_is_in_both() -> None:
    text = told(pipeline(), plan(files(), topic(overlap=0)))
    assert f"{CONTINUES}no record is in both. Writes" in text
    assert f"at most 1 record may be in both {HELD}, duplicates are removed by key." in told(
        pipeline(), plan(files(), topic(overlap=1))
    )


def test_what_is_probably_in_both_is_told_alone() -> None:
    text = told(pipeline(), plan(files(), topic(likely_overlap=997)))
    both = "about 997 of the 57,102 records there may be in both by their timestamps"
    assert f"{CONTINUES}{both}, duplicates are removed by key. Writes" in text


def test_timestamps_by_which_nothing_is_in_both_say_nothing() -> None:
    # As of records that were all appended today, with the event times of days that files hold.
    assert f"{CONTINUES}{BOTH}, duplicates" in told(
        pipeline(), plan(files(), topic(likely_overlap=0))
    )


def test_offsets_known_from_history_are_exact() -> None:
    made = plan(files(until=end(offsets=held())), topic("none", "offsets", None))
    assert "Kafka continues after the last of its records in `history`; no record" in told(
        pipeline(), made
    )


def test_after_a_snapshot_the_topic_is_read_from_where_it_was_then() -> None:
    taken = end(offsets=held(), snapshot=SNAPSHOT)
    text = told(pipeline(), plan(files(until=taken), topic("sequence", "offsets", None)))
    assert "continues from where it was when the snapshot was taken; at most 57,102 records" in text


@pytest.mark.parametrize(
    ("start", "evidence", "text"),
    [
        ("earliest", "fixed", "Kafka is read from its first record."),
        ("latest", "fixed", "Kafka is read from what arrives after the hand-over."),
        ({"offsets": {0: 100}}, "fixed", "Kafka is read from the declared offsets."),
        (
            {"factory": "m:f"},
            "factory",
            "Kafka is read from the offsets that `start.factory` returned.",
        ),
    ],
)
def test_a_topic_without_history(start: Any, evidence: Any, text: str) -> None:
    declared = pipeline({**LIVE, "start": start})
    assert told(declared, plan(topic("none", evidence, None))).startswith(f"{text} Writes")


def test_a_topic_as_history_is_read_up_to_its_end() -> None:
    archive = {**KAFKA, "name": "archive", "start": "earliest", "until": "latest"}
    declared = pipeline(archive, LIVE)
    planned = topic("none", "fixed", None, source="archive", reading=5_000)
    text = told(declared, plan(planned, topic("none", "offsets", None)))
    assert text.startswith(
        "Reads up to 5,000 records of `flights` from its first record up to 30 Sep 2013 23:56 UTC. "
        "`flights` continues after the last of its records in `archive`; no record is in both."
    )


def test_a_bounded_topic_after_files_is_read_then() -> None:
    declared = pipeline(HISTORY, {**LIVE, "until": "latest"})
    text = told(declared, plan(files(), topic(reading=5_000)))
    assert "Then reads up to 5,000 records of `flights` from 29 Sep 2013 23:56 UTC up to" in text
    assert "Then the run ends, as every source has an end." in text


def test_a_chain_of_files_only_has_an_end() -> None:
    assert told(pipeline(HISTORY), plan(files())).startswith(
        f"{READS} Then the run ends, as every source has an end. {WRITES}"
    )


def test_a_folder_that_grows_has_none() -> None:
    declared = pipeline(HISTORY, {**FILES, "name": "live", "discovery_interval": "10 s"})
    text = told(declared, plan(files(), folder(bytes=0)))
    assert "The folder of `live` continues: 273 files, 0 Bytes so far, and new files" in text
    assert "every 10 s." in text
    assert "ends" not in text


@pytest.mark.parametrize(
    ("sink", "text"),
    [
        ({}, WRITES),
        (UPSERT, "Writes to `out`, upsert by `id`."),
        (
            {"table": "lake.flights"},
            "Writes to table `lake.flights` in `out`, each row added once, by `id`.",
        ),
        (
            {**UPSERT, "key": ["window_start", "id"]},
            "Writes what `flights:events` computes to `out`, upsert by `window_start`, `id`.",
        ),
    ],
)
def test_where_rows_go(sink: Any, text: str) -> None:
    declared = pipeline(sink={"path": "out", "mode": "append", "key": ["id"], **sink})
    assert text in told(declared, plan(files(), topic()))


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (GUESS, "About 1 min: a guess; the first run will tell."),
        (
            Estimate(seconds=6_900, executor_hours=81.2, is_guess=False, basis="as before"),
            "About 2 h, 81 executor-hours: as before.",
        ),
    ],
)
def test_how_long_it_takes(estimate: Estimate, text: str) -> None:
    assert told(pipeline(), plan(files(), topic()), estimate).endswith(text)


def test_without_an_end_there_is_no_time() -> None:
    none = Estimate(seconds=None, executor_hours=None, is_guess=False, basis="no bounded source")
    start = {"timestamp": "2013-01-01T00:00:00Z"}
    made = plan(topic("none", "fixed", ms(2013, 1, 1)))
    assert (
        told(pipeline({**LIVE, "start": start}), made, none)
        == f"Kafka is read from 1 Jan 2013 00:00 UTC. {WRITES}"
    )

"""What the page of a hand-over shows of its ledger: tables that fit on it."""

from __future__ import annotations

import dagster as dg

from orchestration.defs.show.metadata import ledger
from sources.common.positions import TopicPartition
from sources.ledger import Ledger, LedgerEntry, SeamCount

ENTRY = LedgerEntry(
    topic="orders",
    partition=0,
    start=7,
    why="first record at or after 2026-11-11T08:50:00Z",
    log_start=2,
    first_offset=8,
    first_ms=1_795_828_500_000,
    seam_end=60,
    overlap=53,
    gap=None,
)


def test_a_ledger_is_three_tables_with_all_of_it_none_wider_than_six_columns() -> None:
    made = Ledger(
        source="live",
        previous=None,
        decided_by="timestamp",
        rule="key",
        end_ms=None,
        declared="",
        entries=[ENTRY],
    )
    at = TopicPartition("orders", 0)
    count = SeamCount(source="live", rows={at: 50}, removed={at: 10})
    shown = {
        name: value.records[0].data
        for name, value in ledger(made, count).items()
        if isinstance(value, dg.TableMetadataValue)
    }
    assert list(shown) == ["ledger", "log of the topic", "seam"]
    assert all(len(row) <= 6 for row in shown.values())
    assert shown["ledger"]["why"] == "first record at or after 11 Nov 2026 08:50 UTC"
    assert shown["log of the topic"]["first timestamp"] == "28 Nov 2026 01:15:00 UTC"
    assert (shown["log of the topic"]["log start"], shown["log of the topic"]["first record"]) == (
        2,
        8,
    )
    assert [shown["seam"][name] for name in ("end", "rows", "removed")] == [60, 50, 10]

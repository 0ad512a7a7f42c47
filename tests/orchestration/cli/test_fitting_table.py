"""Tables of the command line at 80 columns: no value is cut, whatever is in them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.console import Console, RenderableType

from hybrid_extensions.comparison import terminal as comparison_terminal
from hybrid_extensions.generations import terminal
from hybrid_extensions.generations.overview import GenerationLine
from orchestration.cli import terminal_tables
from orchestration.cli.fitting_table import Fitting
from orchestration.comparison.report import AuditReport, InputRows, LedgerLine
from orchestration.supervision.source_status import SourceStatus
from orchestration.supervision.status import Status
from sources.state.action_log import LoggedAction
from spark_jobs.run_state.heartbeat import Heartbeat

NOW_MS = 1_780_000_000_000
AT = "2026-05-28T20:26:40Z"
URL = "s3://the-lake-of-the-company/warehouse/flight_events/_generations/g1"


def text(shown: RenderableType, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(shown)
    return capture.get()


def status() -> RenderableType:
    beat = Heartbeat(
        launch_id="a",
        pid=4_000_000,
        host="h",
        source="live",
        phase="unbounded",
        state="running",
        at_ms=NOW_MS,
        advanced_at_ms=NOW_MS,
        idle=False,
        batch_id=123_456,
        rows_per_s=123_456.0,
        event_time_ms=NOW_MS,
        bad_records=1_234_567,
        late_rows=1_234_567,
    )
    source = SourceStatus(
        source="live", state="running", heartbeat=beat, lag=1_234_567, eta_s=3_723, note=None
    )
    found = Status(
        pipeline="p",
        generation="g2",
        serving="g1",
        planned=True,
        healthy=True,
        own_healthy=True,
        sources=[source],
    )
    return terminal_tables.status(found)


def generations() -> RenderableType:
    line = GenerationLine(name="g1", role="served", begun_ms=NOW_MS, until_ms=NOW_MS, table=URL)
    return terminal.generations([line])


def history() -> RenderableType:
    action = LoggedAction(
        number=1,
        action="change of declaration",
        by="ada@example.com",
        at_ms=NOW_MS,
        generation="g1",
        before={},
        after={"transforms.py": "abcdef012345"},
        outcome="done",
    )
    return terminal_tables.history([action])


def audit() -> RenderableType:
    line = LedgerLine("live", "shop.orders", 12, 123_456_789, 123_456_790, 9, 8, 7, 6, "agrees")
    report = AuditReport(
        pipeline="p",
        expected=12_345_678,
        found=12_345_679,
        missing=1_234_567,
        duplicated=0,
        different=123,
        unexpected=0,
        ambiguous=0,
        examples={},
        input_rows=InputRows({}, 1),
        ledger=[line],
        bad_records=[],
        unchecked=[],
        notes=[],
        seconds=0,
    )
    return comparison_terminal.audit(report)


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (status, ["1,234,567", "123456", "123,456", AT, "1 h 2 min", "bad records"]),
        (generations, [URL, AT, "served"]),
        (history, ["transforms.py: abcdef012345", "ada@example.com", "change of declaration"]),
        (audit, ["12,345,678", "12,345,679", "123456789", "123456790", "from no source", "agrees"]),
    ],
)
def test_every_value_is_whole_within_80_columns(
    make: Callable[[], RenderableType], values: list[str]
) -> None:
    shown = text(make())
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    for value in values:
        assert value in shown


def test_a_table_that_fits_is_a_table_and_blocks_leave_out_what_is_empty() -> None:
    table = Fitting("name", "what it says", title="All")
    table.add_row("one", "")
    table.add_row("two", "2" * 30)
    assert "name" in text(table).splitlines()[2]
    narrow = text(table, width=36).split()
    assert narrow[:8] == ["All", "name", "one", "name", "two", "what", "it", "says"]
    assert "".join(narrow[8:]) == "2" * 30

"""Small plots of characters."""

from __future__ import annotations

from orchestration.progress.sparkline import sparkline

DEC_30_MS = 1_388_361_600_000
MINUTE_MS = 60_000


def test_a_small_plot_shows_when_it_begins_and_ends_and_its_values_there() -> None:
    values = [0.0, 12_345.0, 70.0]
    points = [(DEC_30_MS + at * MINUTE_MS, value) for at, value in enumerate(values)]
    end_ms = DEC_30_MS + 3 * MINUTE_MS
    drawn = sparkline("records/s", points, MINUTE_MS, (end_ms, 4.0)).splitlines()
    assert drawn == [
        "**records/s**:  ",
        "first 0, highest 12.3 k at 30 Dec 2013 00:01, last 4",
        "",
        "```",
        "▁" * 12 + "█" * 12 + "▂" * 12,
        "30 Dec 2013 00:00  30 Dec 2013 00:03",
        "```",
    ]
    # Of one interval, all that is known besides its highest value is how it ended.
    ended = sparkline("records/s", [(end_ms - 1000, 8.0)], MINUTE_MS, (end_ms, 0.0)).splitlines()
    assert "█" * 35 + "▁" in ended
    assert sparkline("records/s", [], MINUTE_MS, (end_ms, 4.0)) == "**records/s**: not known yet."
    assert sparkline("records/s", points, MINUTE_MS, (end_ms, None)).count("last unknown") == 1

"""Text in Dagster's Markdown."""

from __future__ import annotations

import pytest

from orchestration.defs.show.markdown import in_lines

LINE = "**Healthy** · 0 waiting · newest row 12 Oct 2026 · 60.0 k rows · serving g1, candidate none"


def test_a_text_is_read_without_scrolling_beside_wide_values() -> None:
    """A page is as wide as its widest value, and a paragraph in one line would be, too."""
    link = "[the last report](file:///a/folder/with-a-very/long-name/that-is/not/broken.html)"
    shown = in_lines(f"{LINE}\n\n{link}\n\nNever audited.")
    first, second, third = shown.split("\n\n")
    assert first.replace("  \n", " ") == LINE
    assert max(map(len, first.split("  \n"))) <= 60
    assert second.split("  \n")[-1].endswith(
        "(file:///a/folder/with-a-very/long-name/that-is/not/broken.html)"
    )
    assert third == "Never audited."


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"```\n{LINE}\n```", id="a block of code"),
        pytest.param("events.yaml is not valid:\n  event_tme: unknown field", id="short lines"),
        pytest.param(f"Not valid:\n  {LINE}", id="an indented line"),
    ],
)
def test_lines_that_mean_something_stay_as_they_are(text: str) -> None:
    assert in_lines(text) == text


def test_a_text_that_dagster_would_hide_with_more_line_breaks_stays_as_it_is() -> None:
    text = ("word " * 199).strip()
    assert in_lines(text) == text

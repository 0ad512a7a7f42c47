"""Text of any origin in Dagster's Markdown, shown as it is, without its links or pictures."""

from __future__ import annotations

import re


def code_block(text: str) -> str:
    """Return text of any number of lines as a block of code."""
    fence = "`" * max(_longest_run(text) + 1, 3)
    return f"{fence}\n{text}\n{fence}"


def code_span(text: str) -> str:
    """Return text as code within a line; its line breaks become spaces."""
    line, marks = " ".join(text.splitlines()), "`" * (_longest_run(text) + 1)
    # A blank on either side, which is not shown, parts the marks from those of the text.
    blank = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{marks}{blank}{line}{blank}{marks}"


def _longest_run(text: str) -> int:
    """Return how many backticks follow each other at most, as fewer do not end code."""
    return max(map(len, re.findall(r"`+", text)), default=0)

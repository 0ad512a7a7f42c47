"""Text in Dagster's Markdown: of any origin as it is, without its links or pictures; in lines."""

from __future__ import annotations

import re
import textwrap

_LINE = 60  # characters; fits the column of values on a screen of 1,440 pixels
_IN_FULL = 1000  # Dagster shows longer texts in a dialog only


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


def in_lines(markdown: str) -> str:
    """Return Markdown in lines of at most 60 characters; longer words have a line of their own.

    A page makes all its values as wide as the widest one, such as rows of many columns, and a text
    in one line would have to be scrolled to be read. Text with a block of code is returned as it
    is, and so is text that Dagster would not show in full with more line breaks.

    Args:
        markdown: Paragraphs.
    """
    if "```" in markdown:
        return markdown
    text = "\n".join(map(_in_short_lines, markdown.split("\n")))
    return text if len(text) < _IN_FULL else markdown


def _in_short_lines(line: str) -> str:
    """Return a line as several ones that a page shows as such; an indented one as it is."""
    if len(line) <= _LINE or line.startswith(" "):
        return line
    return "  \n".join(textwrap.wrap(line, _LINE, break_long_words=False, break_on_hyphens=False))


def _longest_run(text: str) -> int:
    """Return how many backticks follow each other at most, as fewer do not end code."""
    return max(map(len, re.findall(r"`+", text)), default=0)

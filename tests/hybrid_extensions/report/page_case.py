"""A report as a browser would read it: its texts by section, its tables, and what it loads."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.command_line import invoke

_VOID = {"meta", "img", "br", "rect", "line", "link"}


class ReportPage(HTMLParser):
    """A parsed report.

    Attributes:
        sections: Text of each section by its id, blanks joined.
        rows: Cells of each table row by the section's id.
        tags: All tags that occur.
        loaded: Everything that a browser would load.
        unclosed: Tags that are open at the end.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: dict[str, str] = {}
        self.rows: dict[str, list[list[str]]] = {}
        self.tags: set[str] = set()
        self.loaded: list[str] = []
        self.unclosed: list[str] = []
        self._section = ""
        self._values: list[float] = []
        self._by_row: dict[tuple[str, int], list[float]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.loaded += [given[name] or "" for name in ("src", "href", "data") if name in given]
        if tag not in _VOID:
            self.unclosed.append(tag)
        if tag == "section":
            self._section = given["id"] or ""
            self.rows[self._section] = []
        elif tag == "tr":
            self.rows.setdefault(self._section, []).append([])
            self._values = []
        elif tag in ("td", "th"):
            self.rows[self._section][-1].append("")
        elif tag == "data":
            self._values.append(float(given["value"] or "nan"))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.unclosed.pop() == tag
        if tag == "tr":
            self._by_row[self._section, len(self.rows[self._section]) - 1] = self._values
        if tag == "section":
            self._section = ""

    def handle_data(self, data: str) -> None:
        if not self._section:
            return
        known = f"{self.sections.get(self._section, '')} {data}"
        self.sections[self._section] = " ".join(known.split())
        if self.unclosed and {"td", "th"} & set(self.unclosed):
            cells = self.rows[self._section][-1]
            cells[-1] = " ".join(f"{cells[-1]} {data}".split())

    def numbers_of(self, section: str, row: int) -> list[float]:
        """Return the exact values of ``<data>`` in one row of a section's tables."""
        return self._by_row[section, row]


def call(pipeline: Path, *options: str, command: str = "report") -> tuple[int, dict[str, Any]]:
    """Return the exit status and the answer of ``hybrid report``, or of another command."""
    done = invoke([command, str(pipeline), "--json", *options])
    return done.exit_code, json.loads(done.stdout)


def text_of(pipeline: Path, *options: str) -> str:
    """Return the page that ``hybrid report`` writes."""
    out = pipeline.with_name("report.html")
    assert call(pipeline, "--out", str(out), *options) == (0, {"ok": True, "file": str(out)})
    return out.read_text()


def page_of(pipeline: Path, *options: str) -> ReportPage:
    """Return the page that ``hybrid report`` writes, parsed."""
    return ReportPage(text_of(pipeline, *options))

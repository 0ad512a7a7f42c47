"""Section of the page of benchmark results about a column that is computed on its own."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]
Table = Callable[[list[str], list[list[str]]], str]
_HEAD = """## A column more

A new generation of a table over files, whose transform returns one column more, computed from two
others: in full, and by [`--only-changed`](generations.md#compute-only-changed-columns). The planned
share is what the plan told before: bytes that are decoded and computed. Both tables have the same
rows.
"""


def columns_section(found: Mapping[str, Document], table: Table) -> Iterator[str]:
    """Yield the section; nothing without results.

    Args:
        found: Results by name of the benchmark.
        table: Makes a Markdown table of a head and rows.
    """
    known = [each["result"] for name, each in found.items() if name.startswith("new-column-")]
    if not known:
        return
    yield _HEAD
    rows = [
        [
            each["format"],
            f"{each['rows']:,}",
            str(each["columns"]),
            *(f"{statistics.median(of):.1f} s" for of in each["seconds"].values()),
            f"{each['ratio']:.0%}",
            f"{each['planned share']:.1%}",
        ]
        for each in known
    ]
    ways = list(known[0]["seconds"])
    yield table(["files", "rows", "columns before", *ways, "time", "planned share"], rows)

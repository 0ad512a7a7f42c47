"""The benchmarks' page on training rows that differ from what was served."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Table = Callable[[list[str], list[list[str]]], str]


def skew_section(found: Mapping[str, Mapping[str, Any]], table: Table) -> Iterator[str]:
    """Yield the section about the order of history; nothing without results.

    Args:
        found: Results by name of the benchmark.
        table: Makes a table in Markdown of headings and rows.
    """
    if "skew" not in found:
        return
    result = found["skew"]["result"]
    yield "## Training rows that were never served\n"
    yield (
        f"The same {result['events']:,} events three times: live from the first one on, and as "
        "history in files, in order of event time and in order of arrival. "
        f"{result['late']:,} of them arrive later than the watermark waits. From each table "
        f"{result['labels']:,} labels get the values that were known at their times "
        f"({result['known']:,} of them got any); a training row differs if a value is not that of "
        "the live table.\n"
    )
    labels = result["labels"]
    yield table(
        ["history read in order of", "training rows that differ", "share"],
        [[order, f"{n:,}", f"{n / labels:.1%}"] for order, n in result["differ"].items()],
    )

"""The benchmarks' page on many pipelines at a time: a driver each, or one that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Table = Callable[[list[str], list[list[str]]], str]


def fleet_section(found: Mapping[str, Mapping[str, Any]], table: Table) -> Iterator[str]:
    """Yield the section about fleets; nothing without results.

    Args:
        found: Results by name of the benchmark.
        table: Makes a table in Markdown of headings and rows.
    """
    known = [each["result"] for name, each in found.items() if name.startswith("fleet-")]
    if not known:
        return
    yield "## Many light pipelines\n"
    yield (
        "Each pipeline reads a small file and then a topic of its own, into which a record is "
        "written each second for 20 seconds; then nothing arrives for a minute. Four are started "
        "at a time. Memory is that of all drivers' processes (PSS), freshness the time from when a "
        "record was produced to the commit of its row. Broker and drivers share two cores.\n"
    )
    rows = [
        [
            each["driver"],
            str(each["pipelines"]),
            f"{each['memory MB']:,}",
            f"{each['all live after s']:.0f}",
            f"{each['cpu s to start all']:.0f}",
            f"{each['freshness s, median']:.1f}",
            f"{each['freshness s, p90']:.1f}",
            f"{each['idle cpu, % of a core']:.0f} %",
        ]
        for each in sorted(known, key=lambda one: (one["driver"], one["pipelines"]))
    ]
    head = ["driver", "pipelines", "memory MB", "all live after s", "CPU s until then"]
    yield table([*head, "freshness, median s", "p90 s", "of a core, idle"], rows)

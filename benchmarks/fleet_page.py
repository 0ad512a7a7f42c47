"""The benchmarks' page on many pipelines at a time: a driver each, or one that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    yield drivers_table(known, "pipelines", {"of a core, idle": "idle cpu, % of a core"}, table)


def drivers_table(
    known: Sequence[Mapping[str, Any]], unit: str, shares: Mapping[str, str], table: Table
) -> str:
    """Return a table of what drivers cost, and how fresh their tables are.

    Args:
        known: Results.
        unit: What a driver has many of: the name of their number in a result, and of its column.
        shares: Names of columns with a share of a core, and where it is in a result.
        table: Makes a table in Markdown of headings and rows.
    """
    rows = [
        [
            each["driver"],
            str(each[unit]),
            f"{each['memory MB']:,}",
            f"{each['all live after s']:.0f}",
            f"{each['cpu s to start all']:.0f}",
            f"{each['freshness s, median']:.1f}",
            f"{each['freshness s, p90']:.1f}",
            *(f"{each[share]:.0f} %" for share in shares.values()),
        ]
        for each in sorted(known, key=lambda one: (one["driver"], one[unit]))
    ]
    head = ["driver", unit, "memory MB", "all live after s", "CPU s until then"]
    return table([*head, "freshness, median s", "p90 s", *shares], rows)

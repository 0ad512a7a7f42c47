"""The benchmarks' page on the time from a record's producer to the commit of its row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Table = Callable[[list[str], list[list[str]]], str]


def latency_section(found: Mapping[str, Mapping[str, Any]], table: Table) -> Iterator[str]:
    """Yield the section about latency by rate; nothing without results.

    Args:
        found: Results by name of the benchmark.
        table: Makes a table in Markdown of headings and rows.
    """
    if "latency" not in found:
        return
    result = found["latency"]["result"]
    yield "## Latency of a live run\n"
    yield (
        "From the producer's clock to the Delta commit of the row, with a micro-batch a second "
        f"(`trigger_interval`), for {result['seconds']:.0f} seconds at each rate after a warm-up. "
        "Plain Spark is its Kafka source, `from_json` and Delta. Producer, broker and driver "
        "share the machine. No row may be missing or there twice.\n"
    )
    rows = [
        [
            name,
            f"{each['rate']:,}",
            f"{each['written per s']:,}",
            *(f"{each[key]:.2f}" for key in ("mean s", "p50 s", "p99 s", "worst s")),
            f"{each['cores']:.2f}",
            f"{each['memory MB']:,}",
        ]
        for name, rates in result["rates"].items()
        for each in rates
    ]
    head = ["driver", "records/s wanted", "written", "mean, s", "p50, s", "p99, s", "worst, s"]
    yield table([*head, "cores busy", "memory MB"], rows)

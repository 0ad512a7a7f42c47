"""Section of the page of benchmark results that puts Flink's figures beside the project's."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]
Table = Callable[[list[str], list[list[str]]], str]
_WORKS = {
    "flink-files": "Files of JSON lines to a table",
    "flink-topic": "A topic of JSON to a table",
    "flink-windows": "Counts per hour and user over a topic",
    "flink-chain": "Files, then the topic: whole processes",
}
_BY_HAND = {f"{name}-own": f"{what}; Flink's parser by hand" for name, what in _WORKS.items()}
_CONTENDERS = ("project", "Flink")
_HEAD = """## Beside Flink

The same files and the same topic, in turns, by the project and by Flink {version}: two tasks and a
heap of 4 GiB each, commits about once a second, exactly once. Each table is compared with what
DuckDB computes from the input. The project writes Delta, which is Parquet with a log of
transactions and statistics; Flink writes Parquet files alone (`FileSink`, Snappy as well). Flink's
part is in `benchmarks/flink`: it reuses objects, and reads JSON by Jackson's data binding, as
Flink's own JSON format does. "By hand" is a parser of JSON and of times for these rows alone, as a
team may write one for a single pipeline. A ratio above 1 means that the project was faster.

The first three works are done by one warm process each, from the plan to the last commit. The last
one is measured from the launch of the process to its end: `hybrid run`, and a Flink cluster in one
process with a `HybridSource`. Its topic begins with the last 1 % of the files: the project finds
where the files end and removes what both have; Flink is told the time at which to begin. Flink
ends with the topic; the project follows it until it is seen that all has been committed. Rows/s
count what is read. The load is that of the machine when a round began: where it exceeds the number
of cores, other work shared them, and core-seconds say more than seconds.
"""
_GAP = """The switch from files to topic. From the last row: the time from when it was read to the
first commit of a live row. From the last commit: the time for which the table stood still.
"""


def flink_section(found: Mapping[str, Document], table: Table) -> Iterator[str]:
    """Yield the section; nothing without results.

    Args:
        found: Results by name of the benchmark.
        table: Makes a Markdown table of a head and rows.
    """
    works = {**_WORKS, **_BY_HAND}
    known = {name: found[name]["result"] for name in works if name in found}
    if not known:
        return
    versions = dict.fromkeys(result["Flink"] for result in known.values())
    yield _HEAD.format(version=" and ".join(versions))
    head = ["work", "rows", "project ÷ Flink", "by round", "rows/s, project", "Flink"]
    head += ["core-seconds per million rows, project", "Flink", "peak memory MB, project", "Flink"]
    yield table([*head, "load"], [[works[name], *_row(of)] for name, of in known.items()])
    if (chain := known.get("flink-chain")) is not None:
        yield _GAP
        yield table(
            ["", "from the last row, median s", "by round", "from the last commit, median s"],
            [[name, *_gap(chain["rounds"][name])] for name in _CONTENDERS],
        )


def ratios(result: Document) -> list[float]:
    """Return by round how many times as fast as Flink the project was."""
    project, flink = (result["rounds"][name] for name in _CONTENDERS)
    return [other["seconds"] / own["seconds"] for own, other in zip(project, flink, strict=True)]


def _row(result: Document) -> list[str]:
    """Return the cells of a work, without its name."""
    rows = result["rows"]
    seconds, cpu_s, memory = (
        [statistics.median(each[what] for each in result["rounds"][name]) for name in _CONTENDERS]
        for what in ("seconds", "cpu_s", "memory_mb")
    )
    loads = [each["load"] for name in _CONTENDERS for each in result["rounds"][name]]
    return [
        f"{rows:,}",
        f"{seconds[1] / seconds[0]:.2f}",
        " ".join(f"{ratio:.2f}" for ratio in ratios(result)),
        *(f"{rows / each:,.0f}" for each in seconds),
        *(f"{each / rows * 1e6:.1f}" for each in cpu_s),
        *(f"{each:,.0f}" for each in memory),
        f"{min(loads):.1f} … {max(loads):.1f}",
    ]


def _gap(rounds: Sequence[Document]) -> list[str]:
    """Return the cells of a contender's switch."""
    from_row, from_commit = (
        [each[what] / 1000 for each in rounds] for what in ("from_row_ms", "from_commit_ms")
    )
    return [
        f"{statistics.median(from_row):.1f}",
        " ".join(f"{each:.1f}" for each in from_row),
        f"{statistics.median(from_commit):.1f}",
    ]

"""Page of benchmark results in the docs: tables and plots of what is in ``build/bench``.

``python -m benchmarks.page`` copies each result to ``docs/bench`` and writes ``docs/benchmarks.md``
from all results there, so that running a single benchmark updates its part of the page.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from benchmarks.databases_page import databases_section
from benchmarks.fleet_page import fleet_section
from benchmarks.flink.page import flink_section
from benchmarks.lake_page import lake_section
from benchmarks.latency_page import latency_section
from benchmarks.record import FOLDER
from benchmarks.skew_page import skew_section

_DOCS = Path(__file__).parents[1] / "docs"
PAGE = _DOCS / "benchmarks.md"
_KEPT = _DOCS / "bench"
_PICTURES = _DOCS / "pictures"
_HEAD = """# Benchmarks

This page compares the speed of the project with plain Spark, and shows how its costs grow with
size. You need it to judge whether the project is fast enough for you; [capacity.md](capacity.md)
turns the figures into sizing rules.

`make bench` runs all benchmarks, and `python -m benchmarks.page` writes this page from the figures
in `docs/bench`. Absolute figures say little about other machines. Look at the curves and at the
ratios: in one run, contenders take turns at the same work. A ratio above 1 means that the project
was faster. The first round is a warm-up and is not counted.
"""
_RATIOS = {
    "history-parquet": "History in Parquet to Delta",
    "history-parquet-windows": "History in Parquet to Delta, counts per hour",
    "history-parquet-cluster": "History in Parquet, on a standalone cluster",
    "history-copied": "History in Parquet whose files are copied, `copy_files`",
    "history-json": "History in JSON lines to Delta",
    "history-csv": "History in CSV to Delta",
    "catch-up-json": "Catching up with a topic of JSON to Delta",
    "catch-up-json-cluster": "Catching up with a topic of JSON, on a standalone cluster",
    "catch-up-avro": "Catching up with a topic of Avro to Delta",
    "catch-up-protobuf": "Catching up with a topic of Protobuf to Delta",
    "changes": "Catching up with Debezium changes in JSON, merged into Delta",
    "changes-schemas": "The same, with schemas in each record (the default of Kafka Connect)",
    "changes-trickle": "Small micro-batches of Debezium changes, one after the other",
}
_PROFILES = {
    "profile-catch-up-json": "Catching up with a topic of JSON",
    "profile-catch-up-avro": "Catching up with a topic of Avro",
    "profile-flink-files": "Beside Flink: files of JSON lines to a table",
    "profile-flink-topic": "Beside Flink: a topic of JSON to a table",
    "profile-flink-windows": "Beside Flink: counts per hour and user",
}
_CURVES = {
    "planning": ("Planning Parquet files", "files", "plan_s"),
    "planning-iceberg": ("Planning an Iceberg snapshot", "files", "list_s"),
    "partitions": ("Finding start offsets", "partitions", "decide_s"),
    "overlap": ("Passing the seam", "overlap_rows", "seam_s"),
    "keys": ("Keys in state", "keys", "history_s"),
    "keys-in-memory": ("Keys in state, with Spark's in-memory store", "keys", "history_s"),
    "keys-as-live": ("Keys in state, filled with the live settings", "keys", "history_s"),
    "pipelines": ("Loading Dagster definitions", "pipelines", "load_s"),
}
_GAPS = ("median_ms", "worst_ms")
# Headings of columns of the curves, by key of the results.
_HEADINGS = {
    "list_s": "listing (s)",
    "plan_s": "planning (s)",
    "plan_us_per_file": "planning (µs per file)",
    "read_plan_s": "reading the plan (s)",
    "peak_mib": "peak memory (MiB)",
    "open_s": "connecting (s)",
    "decide_s": "finding offsets (s)",
    "document_bytes": "start position (bytes)",
    "peak_mib_more": "additional peak memory (MiB)",
    "overlap_rows": "rows in the seam",
    "history_s": "history (s)",
    "seam_s": "seam (s)",
    "seam_us_per_row": "seam (µs per row)",
    "history_us_per_key": "history (µs per key)",
    "history_cpu_s": "history (CPU s)",
    "first_live_batch_s": "first live micro-batch (s)",
    "first_live_batch_cpu_s": "first live micro-batch (CPU s)",
    "live_batch_ms": "live micro-batch (ms)",
    "jvm_peak_mib": "peak memory of the JVM (MiB)",
    "state_mib": "state (MiB)",
    "load_s": "loading (s)",
    "tick_s": "tick of all sensors (s)",
    "tick_ms_per_pipeline": "tick (ms per pipeline)",
}
# Where state, checkpoint and target were, as the crash test names it.
_STORES = {
    "disk": "a disk",
    "s3": "a bucket",
    "lossy-s3": "a bucket whose requests get lost",
    "hdfs": "HDFS",
}
Document = Mapping[str, Any]


def main() -> None:
    """Copy new results into the docs, then write the page and its plots."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    for path in sorted(FOLDER.glob("*.json")):
        shutil.copy(path, _KEPT / path.name)
    results = kept()
    PAGE.write_text(page_of(results))
    _draw("bench-ratios", _plot_ratios, _known(results, _RATIOS))
    _draw("bench-curves", _plot_curves, _known(results, _CURVES))


def kept() -> dict[str, Document]:
    """Return the results in ``docs/bench`` by name of the benchmark."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(_KEPT.glob("*.json"))}


def page_of(found: Mapping[str, Document]) -> str:
    """Return the text of the page, in Markdown, for results by name of the benchmark."""
    parts = [_HEAD, *_ratios(found), *flink_section(found, _table), *_profiles(found)]
    parts += [*_curves(found), *_switch(found)]
    parts += [*skew_section(found, _table), *lake_section(found, _table)]
    parts += [*_fixed(found), *_soak(found), *_kills(found)]
    parts += [*latency_section(found, _table)]
    parts += [*fleet_section(found, _table), *databases_section(found, _table)]
    parts += _machines(found)
    return "\n".join(parts)


def _known(found: Mapping[str, Document], names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of those benchmarks that have results, in the order of the names."""
    return {name: found[name]["result"] for name in names if name in found}


def _ratios(found: Mapping[str, Document]) -> Iterator[str]:
    """Yield the section that compares the project with plain Spark; nothing without results."""
    known = _known(found, _RATIOS)
    if not known:
        return
    yield "## Comparison with plain Spark\n"
    yield "![Ratios, one dot per round](pictures/bench-ratios.svg)\n"
    rows = []
    for name, result in known.items():
        for other, ratio in result["ratio"].items():
            by_round = result["ratio_by_round"][other]
            rows.append(
                [
                    _RATIOS[name],
                    f"{result['rows']:,}",
                    f"{result['first']} ÷ {other}",
                    f"{ratio:.2f}",
                    f"{min(by_round):.2f} … {max(by_round):.2f}",
                    str(len(by_round)),
                    f"{statistics.median(result['rows_per_s'][result['first']]):,.0f}",
                ]
            )
    yield _table(
        ["work", "rows", "compared", "ratio", "range over rounds", "rounds", "rows/s"], rows
    )


def _plot_ratios(known: Mapping[str, Any]) -> None:
    """Draw a line of ratios for each comparison: a dot for each round, a bar for the medians."""
    lines = [
        (f"{_RATIOS[name]}\n÷ {other}", ratio, result["ratio_by_round"][other])
        for name, result in known.items()
        for other, ratio in result["ratio"].items()
    ]
    _, axis = plt.subplots(figsize=(9, 0.7 + 0.5 * len(lines)), layout="constrained")
    for at, (_, ratio, by_round) in enumerate(lines):
        axis.plot(by_round, [at] * len(by_round), "o", alpha=0.4, color="C0")
        axis.plot([ratio], [at], "|", markersize=18, color="C1")
    axis.set_yticks(range(len(lines)), [text for text, _, _ in lines], fontsize=8)
    axis.axvline(1, color="gray", linewidth=1)
    axis.set_xlim(left=0)
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    axis.set_xlabel(
        "rows/s ÷ rows/s of the other contender (dots: rounds; bar: ratio of the medians)"
    )


def _profiles(found: Mapping[str, Document]) -> Iterator[str]:
    """Yield the section of CPU profiles; nothing without results."""
    known = _known(found, _PROFILES)
    if not known:
        return
    yield "## CPU profile\n"
    yield (
        "Samples of the task threads by the JVM's Flight Recorder, after warm-up. Each sample is "
        "assigned to a stage by the innermost stack frame that identifies one.\n"
    )
    for name, contenders in known.items():
        yield f"### {_PROFILES[name]}\n"
        yield _shares("stage", {key: of["stages"] for key, of in contenders.items()})


def _shares(heading: str, by_contender: Mapping[str, Mapping[str, float]]) -> str:
    """Return a table of shares in percent, a column for each contender.

    Args:
        heading: Heading of the first column.
        by_contender: By contender, shares by name of the row.
    """
    names = dict.fromkeys(name for shares in by_contender.values() for name in shares)
    rows = [
        [name, *(f"{shares.get(name, 0):.1%}" for shares in by_contender.values())]
        for name in names
    ]
    return _table([heading, *by_contender], rows)


def _curves(found: Mapping[str, Document]) -> Iterator[str]:
    """Yield the section about costs by size; nothing without results."""
    known = _known(found, _CURVES)
    if not known:
        return
    yield "## How costs grow with size\n"
    yield "![Cost by size](pictures/bench-curves.svg)\n"
    for name, results in known.items():
        yield f"### {_CURVES[name][0]}\n"
        rows = [[f"{value:,}" for value in result.values()] for result in results]
        yield _table([_HEADINGS.get(key, key) for key in results[0]], rows)


def _plot_curves(known: Mapping[str, Any]) -> None:
    """Draw the costs by size on logarithmic axes, each with a line of linear growth."""
    _, every = plt.subplots(
        1, len(known), figsize=(4.5 * len(known), 3.5), layout="constrained", squeeze=False
    )
    for axis, (name, results) in zip(every.flat, known.items(), strict=True):
        title, size, cost = _CURVES[name]
        sizes, costs = ([result[key] for result in results] for key in (size, cost))
        axis.loglog(sizes, costs, "o-", label="measured")
        linear = [costs[-1] * each / sizes[-1] for each in sizes]
        axis.loglog(sizes, linear, "--", color="gray", label="linear")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(_HEADINGS.get(size, size))
        axis.set_ylabel("seconds")
        axis.grid(alpha=0.3)
        axis.legend()


def _switch(found: Mapping[str, Document]) -> Iterator[str]:
    """Yield the section about the switch to the live run; nothing without results."""
    if "switch" not in found:
        return
    yield "## The switch\n"
    yield (
        "Seconds from the last commit of history to the first live micro-batch, measured on real "
        "processes. `plain` is a Spark script that only follows the topic, measured from its "
        "launch: the start-up of Spark alone.\n"
    )
    rows = [
        [kind, what, *(f"{of[key] / 1000:.1f}" for key in _GAPS), str(len(of["all_ms"]))]
        for kind, numbers in found["switch"]["result"]["gaps"].items()
        for what, of in numbers.items()
    ]
    yield _table(["driver", "the micro-batch is", "median", "worst", "rounds"], rows)
    yield "The steps of a cold switch, in seconds (medians):\n"
    before, rows = 0.0, []
    for step, ms in sorted(found["switch"]["result"]["cold_steps_ms"].items(), key=itemgetter(1)):
        rows.append([step, f"{(ms - before) / 1000:.1f}", f"{ms / 1000:.1f}"])
        before = ms
    yield _table(["a step ends when", "duration", "since the last commit of history"], rows)


def _fixed(found: Mapping[str, Document]) -> Iterator[str]:
    """Yield the section about the duration of commands; nothing without results."""
    if "fixed" not in found:
        return
    yield "## Duration of commands\n"
    yield "Seconds per process, measured from the shell.\n"
    rows = [
        [what, f"{of['median_s']:.2f}", f"{of['worst_s']:.2f}", str(of["rounds"])]
        for what, of in found["fixed"]["result"].items()
    ]
    yield _table(["command", "median", "worst", "rounds"], rows)


def _soak(found: Mapping[str, Document]) -> Iterator[str]:
    """Yield the section about the soak test; nothing without results."""
    if "soak" not in found:
        return
    result = found["soak"]["result"]
    yield "## Soak test: steady input\n"
    yield (
        f"{result['rate']:,} records/s for {result['minutes']:.0f} minutes, with windows merged "
        f"into a table and Dagster with the supervision running. Afterwards, the table was "
        f"{'exact' if result['exact'] else 'NOT exact'}.\n"
    )
    yield "![Memory, lag and state over time](pictures/soak.svg)\n"
    yield (
        "A week is not measured, but computed from the slope of the second half. Files of the "
        "table come with each commit, about one a second, as nothing was declared that compacts "
        "them ([`upkeep`](operating.md)).\n"
    )
    growth, week = result["last third by middle third"], result["a week by the slope"]
    rows = [
        [name, f"{of:.3f}", f"{week[name]:,.0f}" if week[name] > 0 else "no growth"]
        for name, of in growth.items()
    ]
    yield _table(["quantity", "last third ÷ middle third", "after a week, computed"], rows)


def _kills(found: Mapping[str, Document]) -> Iterator[str]:
    """Yield the section about the crash tests; nothing without results."""
    runs = [each["result"] for name, each in found.items() if name.startswith("kills-")]
    if not runs:
        return
    yield "## Crash test: kills at random instants\n"
    yield (
        "State, checkpoint and target are in one store. Each chain was run to its end after its "
        "kills, and its table was compared with what DuckDB computes from all input. The watcher "
        "is the process that launched the driver and follows it. Runs of several seeds are summed "
        "up.\n"
    )
    names = ("kills", "chains", "rows lost", "rows doubled", "rows different")
    totals: Counter[tuple[str, str]] = Counter()
    hits: dict[str, Counter[tuple[str, str]]] = {"victim": Counter(), "where": Counter()}
    for run in runs:
        store = run["store"]
        totals.update({(store, "runs"): 1, **{(store, name): run[name] for name in names}})
        for hit in run["hits"]:
            for by, counts in hits.items():
                counts[store, hit[by]] += hit["kills"]
    stores = {store: place for store, place in _STORES.items() if (store, "runs") in totals}
    rows = [
        [place, *(str(totals[store, name]) for name in ("runs", *names))]
        for store, place in stores.items()
    ]
    yield _table(["store", "runs", *names], rows)
    for heading, counts in zip(
        ("killed with SIGKILL", "position of the chain"), hits.values(), strict=True
    ):
        rows = [
            [what, *(str(counts[store, what]) for store in stores)]
            for what in sorted({what for _, what in counts})
        ]
        yield _table([heading, *stores.values()], rows)


def _machines(found: Mapping[str, Document]) -> Iterator[str]:
    """Yield the section about the machines, and where the command of each result is."""
    yield "## Commands and machine\n"
    yield (
        "Each result is a file in `docs/bench`, with its command, its day, and the load of the "
        "machine before it.\n"
    )
    seen: dict[str, None] = {}
    for each in found.values():
        machine = each["machine"].items()
        # Two starts of one machine differ by some kB.
        left_out = ("day", "load before", "memory")
        parts = [f"{key} {value}" for key, value in machine if key not in left_out]
        memory = int(each["machine"]["memory"].removesuffix(" kB")) / 2**20
        seen.setdefault(", ".join([*parts, f"memory {memory:.1f} GiB"]))
    for text in seen:
        yield f"Machine: {text}.\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _draw(name: str, plot: Callable[[Mapping[str, Any]], None], known: Mapping[str, Any]) -> None:
    """Draw a plot of results into ``docs/pictures/<name>.svg``; do nothing without results."""
    if not known:
        return
    # A fixed salt, so that the same figures make the same file.
    mpl.rcParams["svg.hashsalt"] = name
    plot(known)
    plt.savefig(_PICTURES / f"{name}.svg", metadata={"Date": None})
    plt.close()


if __name__ == "__main__":
    main()

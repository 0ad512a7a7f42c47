"""The page of the benchmarks: tables and plots of what is in ``build/bench``.

``python -m benchmarks.page`` copies each result to ``docs/bench`` and writes
``docs/benchmarks.md`` of all that is there, so a benchmark that is run alone renews its part.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from benchmarks.record import FOLDER

_DOCS = Path(__file__).parents[1] / "docs"
PAGE = _DOCS / "benchmarks.md"
_KEPT = _DOCS / "bench"
_PICTURES = _DOCS / "pictures"
_HEAD = """# Benchmarks

Written by `python -m benchmarks.page` from the figures in `docs/bench`; `make bench` runs all of
them. An absolute figure says little beyond its machine: what counts are the ratios, each of
contenders that did the same work in turns in one run, and the curves. A ratio above 1 means that
the project was faster. The first round warms up and is not counted.
"""
_RATIOS = {
    "history-parquet": "History in Parquet to Delta",
    "history-parquet-windows": "History in Parquet, counted by hour, to Delta",
    "history-parquet-cluster": "History in Parquet, on a standalone cluster",
    "history-json": "History in JSON lines to Delta",
    "history-json-cluster": "History in JSON lines, on a standalone cluster",
    "history-csv": "History in CSV to Delta",
    "topic_range": "A bounded topic, JSON, to Delta",
    "catch-up-json": "Catching up with a topic of JSON, to Delta",
    "catch-up-json-cluster": "Catching up with a topic of JSON, on a standalone cluster",
    "catch-up-avro": "Catching up with a topic of Avro, to Delta",
    "catch-up-protobuf": "Catching up with a topic of Protobuf, to Delta",
    "changes": "Catching up with a change log in JSON, merged into Delta",
    "changes-schemas": "The same, with the schemas that Kafka Connect writes by default",
    "changes-trickle": "Small micro-batches of changes, one by one",
    "seam-inside": "Live, while the seam filter compares keys",
    "seam-after": "Live, after the seam",
}
_PROFILES = {
    "profile-catch-up-json": "Catching up with a topic of JSON",
    "profile-catch-up-avro": "Catching up with a topic of Avro",
}
_CURVES = {
    "planning": ("Planning Parquet files", "files", "plan_s"),
    "partitions": ("Start offsets of partitions", "partitions", "decide_s"),
    "overlap": ("Passing a seam", "overlap_rows", "seam_s"),
    "keys": ("History with as many keys in state", "keys", "history_s"),
    "keys-in-memory": ("The same, with Spark's store in memory", "keys", "history_s"),
    "pipelines": ("Dagster's definitions", "pipelines", "load_s"),
}
_GAPS = ("median_ms", "worst_ms")
Document = Mapping[str, Any]


def main() -> None:
    """Write the page."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    for path in sorted(FOLDER.glob("*.json")):
        shutil.copy(path, _KEPT / path.name)
    found = kept()
    PAGE.write_text(page_of(found))
    _draw("bench-ratios", _plot_ratios, _known(found, _RATIOS))
    _draw("bench-curves", _plot_curves, _known(found, _CURVES))


def kept() -> dict[str, Document]:
    """The results in the docs, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(_KEPT.glob("*.json"))}


def page_of(found: Mapping[str, Document]) -> str:
    """The text of the page."""
    parts = [_HEAD, *_ratios(found), *_profiles(found), *_curves(found), *_switch(found)]
    parts += [*_fixed(found), *_soak(found), *_kills(found), *_cdc(found), *_machines(found)]
    return "\n".join(parts)


def _known(found: Mapping[str, Document], names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: found[name]["result"] for name in names if name in found}


def _ratios(found: Mapping[str, Document]) -> Iterator[str]:
    known = _known(found, _RATIOS)
    if not known:
        return
    yield "## Side by side\n"
    yield "![Ratios, a dot for each round](pictures/bench-ratios.svg)\n"
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
    yield _table(["What", "rows", "compared", "ratio", "by round", "rounds", "rows/s"], rows)


def _plot_ratios(known: Mapping[str, Any]) -> None:
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
    axis.set_xlabel("rows/s ÷ rows/s of the other (dots: rounds; bar: ratio of the medians)")


def _profiles(found: Mapping[str, Document]) -> Iterator[str]:
    known = _known(found, _PROFILES)
    if not known:
        return
    yield "## Where the time goes\n"
    yield (
        "Samples of the tasks' threads by the JVM's Flight Recorder, warmed up. A sample counts "
        "for the innermost frame that tells what it is for.\n"
    )
    for name, contenders in known.items():
        yield f"### {_PROFILES[name]}\n"
        yield _shares("stage", {key: of["stages"] for key, of in contenders.items()})
        first = next(iter(contenders))
        methods = {f"`{name}`": share for name, share in contenders[first]["methods"].items()}
        yield _shares("method on top", {first: methods})


def _shares(what: str, by_contender: Mapping[str, Mapping[str, float]]) -> str:
    names = dict.fromkeys(name for shares in by_contender.values() for name in shares)
    rows = [
        [name, *(f"{shares.get(name, 0):.1%}" for shares in by_contender.values())]
        for name in names
    ]
    return _table([what, *by_contender], rows)


def _curves(found: Mapping[str, Document]) -> Iterator[str]:
    known = _known(found, _CURVES)
    if not known:
        return
    yield "## How costs grow\n"
    yield "![Cost by size](pictures/bench-curves.svg)\n"
    for name, results in known.items():
        yield f"### {_CURVES[name][0]}\n"
        rows = [[f"{value:,}" for value in result.values()] for result in results]
        yield _table([key.replace("_", " ") for key in results[0]], rows)


def _plot_curves(known: Mapping[str, Any]) -> None:
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
        axis.set_xlabel(size)
        axis.set_ylabel("seconds")
        axis.grid(alpha=0.3)
        axis.legend()


def _switch(found: Mapping[str, Document]) -> Iterator[str]:
    if "switch" not in found:
        return
    yield "## The switch\n"
    yield (
        "Seconds from history's last commit to the first live micro-batch, real processes. `plain` "
        "is a Spark script that follows the topic, from its launch on: Spark's own start.\n"
    )
    rows = [
        [kind, what, *(f"{of[key] / 1000:.1f}" for key in _GAPS), str(len(of["all_ms"]))]
        for kind, numbers in found["switch"]["result"]["gaps"].items()
        for what, of in numbers.items()
    ]
    yield _table(["Driver", "the batch is", "median", "worst", "rounds"], rows)
    yield "Where a cold switch's time goes, in seconds; medians.\n"
    before, rows = 0.0, []
    for step, ms in sorted(found["switch"]["result"]["cold_steps_ms"].items(), key=itemgetter(1)):
        rows.append([step, f"{(ms - before) / 1000:.1f}", f"{ms / 1000:.1f}"])
        before = ms
    yield _table(["until", "it takes", "since history's last commit"], rows)


def _fixed(found: Mapping[str, Document]) -> Iterator[str]:
    if "fixed" not in found:
        return
    yield "## Small things\n"
    yield "Seconds of whole processes, from the shell.\n"
    rows = [
        [what, f"{of['median_s']:.2f}", f"{of['worst_s']:.2f}", str(of["rounds"])]
        for what, of in found["fixed"]["result"].items()
    ]
    yield _table(["What", "median", "worst", "rounds"], rows)


def _soak(found: Mapping[str, Document]) -> Iterator[str]:
    if "soak" not in found:
        return
    result = found["soak"]["result"]
    yield "## Half an hour of steady input\n"
    yield (
        f"{result['rate']:,} records/s for {result['minutes']:.0f} minutes, windows merged into a "
        f"table, with the supervision beside it; the table was "
        f"{'exact' if result['exact'] else 'NOT exact'} afterwards.\n"
    )
    yield "![Memory, lag and state over time](pictures/soak.svg)\n"
    growth = result["last third by middle third"].items()
    yield _table(
        ["What", "last third ÷ middle third"], [[name, f"{of:.3f}"] for name, of in growth]
    )


def _kills(found: Mapping[str, Document]) -> Iterator[str]:
    if "kills" not in found:
        return
    result = found["kills"]["result"]
    yield "## Killed at random instants\n"
    yield (
        f"{result['kills']} kills in {result['chains']} chains; each was run on to its end, and "
        f"its table compared with what DuckDB makes of all the input: {result['rows lost']} rows "
        f"lost, {result['rows doubled']} doubled, {result['rows different']} different.\n"
    )
    rows = [[hit["victim"], hit["where"], str(hit["kills"])] for hit in result["hits"]]
    yield _table(["Killed with -9", "where the chain was", "kills"], rows)


def _cdc(found: Mapping[str, Document]) -> Iterator[str]:
    known = [each["result"] for name, each in found.items() if name.startswith("cdc-")]
    if not known:
        return
    yield "## Tables taken over while they change\n"
    yield (
        "PostgreSQL, Debezium, three tables, each a pipeline: changes go on during snapshot, "
        "hand-over and catch-up; afterwards each target is compared with its table, row for row. "
        "Freshness is from the commit in PostgreSQL to the commit of the Delta table, of all "
        "three streams on this one machine; a rate at which they can't keep up makes it the age "
        "of what waits.\n"
    )
    rows = []
    for each in sorted(known, key=lambda one: (-one["changes"], one["seed"])):
        fresh = each["freshness"].values()
        rows.append(
            [
                str(each["seed"]),
                f"{each['changes']:,}",
                str(each["kills"]),
                f"{sum(each['rows'].values()):,}",
                str(sum(each["different"].values())),
                f"{each['records_per_s']:,}",
                " / ".join(f"{of['median_s']:.1f}" for of in fresh),
                " / ".join(f"{of['p99_s']:.1f}" for of in fresh),
            ]
        )
    head = ["seed", "rows changed", "drivers killed", "rows compared", "different", "records/s"]
    yield _table([*head, "freshness, median s, by table", "p99 s"], rows)


def _machines(found: Mapping[str, Document]) -> Iterator[str]:
    yield "## Commands and machine\n"
    rows = [
        [name, f"`{each['command']}`", each["machine"]["day"], str(each["machine"]["load before"])]
        for name, each in found.items()
    ]
    yield _table(["Result", "command", "day", "load before"], rows)
    seen: dict[str, None] = {}
    for each in found.values():
        machine = each["machine"].items()
        kept = (f"{key} {value}" for key, value in machine if key not in ("day", "load before"))
        seen.setdefault(", ".join(kept))
    for text in seen:
        yield f"Machine: {text}.\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _draw(name: str, plot: Callable[[Mapping[str, Any]], None], known: Mapping[str, Any]) -> None:
    if not known:
        return
    # The same figures make the same file.
    mpl.rcParams["svg.hashsalt"] = name
    plot(known)
    plt.savefig(_PICTURES / f"{name}.svg", metadata={"Date": None})
    plt.close()


if __name__ == "__main__":
    main()

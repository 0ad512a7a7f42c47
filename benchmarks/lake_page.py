"""Section of the page of benchmark results about everything in a bucket."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]
Table = Callable[[list[str], list[list[str]]], str]
_WORK = {
    "lake-history": "History in Parquet to Delta",
    "lake-catch-up": "Catching up with a topic of JSON to Delta",
}
_HEAD = """## Everything in a bucket

Files, state, checkpoint and target in a bucket. The server is a Versity gateway over a local
folder, behind a proxy that counts requests and delays each one: 0 ms shows the work, 20 ms a store
in the same region with a slow answer. Server, proxy, broker and Spark share the two cores of this
machine, and so did other work meanwhile: take the **numbers of requests** as they are, and times as
upper bounds. `best` is the round that other work disturbed least. Amazon S3 was not measured.
"""


def lake_section(found: Mapping[str, Document], table: Table) -> Iterator[str]:
    """Yield the section; nothing without results.

    Args:
        found: Results by name of the benchmark.
        table: Makes a Markdown table of a head and rows.
    """
    known = {name: each["result"] for name, each in found.items() if name.startswith("lake-")}
    if not known:
        return
    yield _HEAD
    if (batches := known.get("lake-micro-batches")) is not None:
        yield from _micro_batches(batches, table)
    yield from _once(known, table)
    yield from _ratios(known, table)


def _micro_batches(result: Document, table: Table) -> Iterator[str]:
    yield "### Small micro-batches\n"
    yield (
        "A stream of ten records a second, appended without state, one micro-batch after the "
        "other. Requests include those of the lease and of heartbeats.\n"
    )
    rounds: dict[float, list[Document]] = {}
    for each in result["by round"]:
        rounds.setdefault(each["ms a request"], []).append(each)
    rows = [
        [
            f"{delay:g}",
            str(len(of)),
            str(sum(each["micro-batches"] for each in of)),
            f"{statistics.median(each['requests each'] for each in of):.1f}",
            f"{min(each['seconds each'] for each in of):.2f}",
            f"{statistics.median(each['seconds each'] for each in of):.2f}",
            " … ".join(f"{each(one['load'] for one in of):g}" for each in (min, max)),
        ]
        for delay, of in rounds.items()
    ]
    head = ["delay of a request (ms)", "rounds", "micro-batches", "requests each"]
    yield table([*head, "s each, best", "s each, median", "load average"], rows)
    yield (
        f"Without input, a live run makes {result['idle requests an hour']:,.0f} requests an hour. "
        f"A look of the supervision makes {result['requests of a look']}.\n"
    )


def _once(known: Mapping[str, Document], table: Table) -> Iterator[str]:
    rows = []
    if (plan := known.get("lake-plan")) is not None:
        requests = f"{plan['requests per object'] * plan['objects']:,.0f}"
        work = plan["core-seconds of the planner"]
        what = f"plan of {plan['objects']:,} Parquet files ({work:,.0f} s of CPU time)"
        rows.append([what, requests, f"{plan['seconds']:,.1f}"])
    if (promotion := known.get("lake-promotion")) is not None:
        for how in ("by reference", "copied"):
            what = f"promotion of {promotion['files']:,} files, {how}"
            each = promotion[how]
            rows.append([what, f"{each['requests']:,}", f"{each['seconds']:,.1f}"])
    if rows:
        yield "### Plan and promotion\n"
        yield (
            "At 0 ms. A file is planned by its footer. `by reference` is what a promotion does; "
            "`copied` is what it did before: it copied each file within the store.\n"
        )
        yield table(["work", "requests", "s"], rows)


def _ratios(known: Mapping[str, Document], table: Table) -> Iterator[str]:
    rows = []
    for name, title in _WORK.items():
        if (result := known.get(name)) is None:
            continue
        speeds = result["rows_per_s"]
        disk = speeds["project on a disk"]
        for place in (key.removeprefix("project ") for key in speeds if key.startswith("project")):
            own, plain = speeds[f"project {place}"], speeds[f"plain Spark {place}"]
            rows.append(
                [
                    title,
                    place,
                    f"{result['requests'][f'project {place}']:,}",
                    f"{statistics.median(own):,.0f}",
                    _ratio(disk, own),
                    _ratio(own, plain),
                    str(len(own)),
                ]
            )
    if rows:
        yield "### History and catching up\n"
        yield (
            "`disk ÷ here`: how many times as fast it is with everything on a disk. Ratios are "
            "those of the medians, with the range over rounds. Plain Spark is a stream with this "
            "project's checkpoint manager and log store, as its own lose commits in a bucket.\n"
        )
        head = ["work", "where", "requests", "rows/s", "disk ÷ here", "project ÷ plain Spark"]
        yield table([*head, "rounds"], rows)


def _ratio(a: Sequence[float], b: Sequence[float]) -> str:
    by_round = [one / other for one, other in zip(a, b, strict=True)]
    of_medians = statistics.median(a) / statistics.median(b)
    return f"{of_medians:.2f} ({min(by_round):.2f} … {max(by_round):.2f})"

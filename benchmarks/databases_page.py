"""Sections of the page of benchmark results about tables of a database, captured in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.fleet_page import drivers_table

Document = Mapping[str, Any]
Table = Callable[[list[str], list[list[str]]], str]


def databases_section(found: Mapping[str, Document], table: Table) -> Iterator[str]:
    """Yield the sections; nothing without results.

    Args:
        found: Results by name of the benchmark.
        table: Makes a Markdown table of a head and rows.
    """
    yield from _cdc(found, table)
    yield from _hostile(found, table)
    yield from _open_snapshots(found, table)
    yield from _tables(found, table)
    yield from _transactions(found, table)


def _cdc(found: Mapping[str, Document], table: Table) -> Iterator[str]:
    """Yield the section about change data capture; nothing without results."""
    known = [each["result"] for name, each in found.items() if name.startswith("cdc-")]
    if not known:
        return
    yield "## Change data capture of tables in use\n"
    yield (
        "A database, Debezium, and a pipeline for each table. The tables change during snapshot, "
        "hand-over and catch-up. Afterwards, each target is compared with the database's own dump "
        "of its table, row for row; of published cuts, each invariant over several tables has to "
        "hold. A crash is a SIGKILL of the connector or of the database. Latency is the time from "
        "the commit in the database to the commit of the Delta table; all of it shares this one "
        "machine. At a rate that it cannot sustain, latency includes the time that changes wait.\n"
    )
    rows = []
    for each in sorted(
        known, key=lambda one: (one.get("database", "postgres"), -one["changes"], one["seed"])
    ):
        of_tables = each["latency"].values()
        cuts = each.get("cuts") or {}
        rows.append(
            [
                each.get("database", "postgres"),
                str(each["seed"]),
                f"{each['changes']:,}",
                str(each["kills"]),
                str(each.get("crashes", 0)),
                f"{sum(each['rows'].values()):,}",
                str(sum(each["different"].values())),
                f"{cuts['published']} / {cuts['invariants broken']}" if cuts else "",
                f"{each['records_per_s']:,}",
                _span([of["median_s"] for of in of_tables]),
                _span([of["p99_s"] for of in of_tables]),
            ]
        )
    head = ["database", "seed", "rows changed", "drivers killed", "crashes", "rows compared"]
    head += ["different", "cuts / invariants broken", "records/s"]
    yield table([*head, "latency by table, median s", "p99 s"], rows)


def _hostile(found: Mapping[str, Document], table: Table) -> Iterator[str]:
    """Yield the section about hostile runs; nothing without results."""
    known = [each["result"] for name, each in found.items() if name.startswith("hostile-")]
    if not known:
        return
    yield "## Databases in use, while all that serves them is killed\n"
    yield (
        "`python -m benchmarks.hostile_databases --kind … --seed …`: changes of a table are "
        "followed while its snapshot is read (`follow: while_reading`). Sessions insert, update "
        "and delete rows, move keys, roll back, and keep transactions open; driver, connector and "
        "database get SIGKILL at random instants. Once the table is whole, rows of the target are "
        "damaged and repaired, and a column is added, which the policy follows. In the end DuckDB "
        "compares the target with the dump of the database's own tool, and the audit computes it "
        "from all raw input.\n"
    )
    rows = []
    for each in sorted(known, key=lambda one: (one["database"], one["kafka"], one["seed"])):
        killed = each["killed"]
        rows.append(
            [
                each["database"] + ("" if each["kafka"] else ", without Kafka"),
                str(each["seed"]),
                f"{each['changes']:,}",
                *(str(killed[what]) for what in ("driver", "connector", "database")),
                str(each.get("killed before the table was whole", sum(killed.values()))),
                f"{each['repaired']:,}",
                f"{each['whole after s']:,}",
                f"{each['seconds']:,}",
                f"{each['rows']:,}",
                str(each["different"]),
                "agrees" if each["audited"] else "does not agree",
            ]
        )
    head = ["database", "seed", "rows changed", "drivers killed", "connectors", "databases"]
    head += ["of these before it was whole", "rows repaired", "table whole after s", "seconds"]
    yield table([*head, "rows compared", "different", "audit"], rows)


def _open_snapshots(found: Mapping[str, Document], table: Table) -> Iterator[str]:
    """Yield the section about changes beside a snapshot; nothing without results."""
    known = [one["result"] for name, one in found.items() if name.startswith("open-snapshot-")]
    if not known:
        return
    yield "## Changes beside a snapshot that is being read\n"
    yield (
        "`python -m benchmarks.open_snapshot`: a table of PostgreSQL is followed while its chunks "
        "are read (`follow: while_reading`); all the time rows of chunks that are read are "
        "changed. Seconds are from the commit in the database to that of the Delta table, by the "
        "number of chunks that were read when the row was changed. In the end the table is "
        "compared with the database, row for row.\n"
    )
    for each in sorted(known, key=lambda one: (one["rows"], one["vectors"])):
        by = "marked by deletion vectors" if each["vectors"] else "in files that are written again"
        yield (
            f"{each['rows']:,} rows in {each['chunks']} chunks, {each['rate']:g} changes a second, "
            f"changed rows {by}. "
            f"The first chunk was read after {each['first chunk after s']:.0f} s, the last one "
            f"after {each['all chunks read after s']:.0f} s, and the table was whole after "
            f"{each['whole after s']:.0f} s.\n"
        )
        rows = [
            [
                str(of["chunks read"]),
                f"{of['changes']:,}",
                f"{of['p50 s']:.1f}",
                f"{of['p99 s']:.1f}",
            ]
            for of in _some(each["freshness"])
        ]
        yield table(["chunks read", "changes", "p50, s", "p99, s"], rows)


def _some(lines: Sequence[Document]) -> list[Document]:
    """Return every line of a few, of more about ten and the last two."""
    *others, last, whole = lines
    return [*others[:: max(1, len(others) // 10)], last, whole]


def _span(values: Sequence[float]) -> str:
    """Return the lowest and the highest of some numbers."""
    low, high = min(values), max(values)
    return f"{low:.1f}" if low == high else f"{low:.1f} … {high:.1f}"


def _tables(found: Mapping[str, Document], table: Table) -> Iterator[str]:
    """Yield the section about many tables of a database; nothing without results."""
    known = [each["result"] for name, each in found.items() if name.startswith("tables-")]
    if not known:
        return
    yield "## Many tables of a database\n"
    yield (
        "All tables of a PostgreSQL database in one file, each with a changed row a second for a "
        "minute, while database, connector, broker and drivers share two cores. Memory is that of "
        "all drivers' processes (PSS), freshness the time from the commit in the database to that "
        "of the Delta table.\n"
    )
    shares = {"of a core, busy": "cpu, % of a core", "idle": "idle cpu, % of a core"}
    yield drivers_table(known, "tables", shares, table)


def _transactions(found: Mapping[str, Document], table: Table) -> Iterator[str]:
    """Yield the section about transactions of very many rows; nothing without results."""
    known = {name: of["result"] for name, of in found.items() if name.startswith("transaction")}
    if not known:
        return
    yield "## Transactions of very many rows\n"
    yield (
        "One transaction that inserts all rows, then one that updates each of them. Seconds count "
        "from the commit in the database, until all of it is in the topic, which is Debezium's "
        "part, and in the Delta table, which is then compared with the database, row for row. All "
        "share two cores. Memory is the highest of the driver's processes (PSS).\n"
    )
    rows = [
        [
            each["transaction"],
            f"{result['rows']:,}",
            f"{each['in the topic after s']:.0f}",
            f"{each['in the target after s']:.0f}",
            f"{each['cpu s of the driver']:.0f}",
            f"{each['memory MB']:,}",
        ]
        for result in known.values()
        for each in result["transactions"]
    ]
    head = ["transaction", "rows", "in the topic after s", "in the target after s"]
    yield table([*head, "CPU s of the driver", "memory MB"], rows)

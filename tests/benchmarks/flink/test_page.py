"""Flink's rows on the page of benchmark results."""

from __future__ import annotations

from typing import Any

from benchmarks.flink.page import flink_section, ratios


def result(**gaps: int) -> dict[str, Any]:
    def costs(seconds: list[float], cpu_s: float, memory_mb: int) -> list[dict[str, Any]]:
        return [
            {"seconds": each, "cpu_s": cpu_s, "memory_mb": memory_mb, "load": 1.5, **gaps}
            for each in seconds
        ]

    rounds = {"project": costs([4, 5, 4], 8, 2000), "Flink": costs([2, 5, 6], 4, 500)}
    return {"rows": 2_000_000, "Flink": "2.2.1", "rounds": rounds}


def lines(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("|".join(row) for row in [head, *rows])


def test_above_one_the_project_is_faster() -> None:
    assert ratios(result()) == [0.5, 1.0, 1.5]


def test_a_row_has_ratios_rates_cost_and_memory() -> None:
    head, table = flink_section({"flink-topic": {"result": result()}}, lines)
    assert "Flink 2.2.1" in head
    assert table.splitlines()[1] == (
        "A topic of JSON to a table|2,000,000|1.25|0.50 1.00 1.50|500,000|400,000|4.0|2.0|2,000|500"
        "|1.5 … 1.5"
    )


def test_a_chain_has_its_switch_too() -> None:
    chain = result(from_row_ms=2500, from_commit_ms=1000)
    *_, table = flink_section({"flink-chain": {"result": chain}}, lines)
    assert table.splitlines()[1] == "project|2.5|2.5 2.5 2.5|1.0"


def test_without_results_there_is_no_section() -> None:
    assert list(flink_section({}, lines)) == []

"""Which differences an audit leaves unknown: records in flight, or unproven SQL, may explain them.

An audit with such differences has not passed: it is unknown, unless something else is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hybrid_extensions.audit.computed.expected_query import ExpectedQuery
from hybrid_extensions.audit.records_in_flight import RecordsInFlight
from hybrid_extensions.comparison.compare_tables import Comparison
from sources.common.counting import counted

Judged = tuple[Comparison, list[str]]
"""A comparison without the differences that are unknown, and a sentence about them, if any."""


def without_unproven(comparison: Comparison, query: ExpectedQuery | None) -> Judged:
    """Return a comparison without differences that a query explains which is not proven.

    Rows that agree are right nevertheless: two engines have computed them.

    Args:
        comparison: The comparison.
        query: The query for the expected rows; None, or one that is proven, leaves all differences.
    """
    counts = {kind: number for kind, number in comparison.counts.items() if number}
    if query is None or query.unproven is None or not counts:
        return comparison, []
    sentence = (
        f"{query.name} makes other rows than the target has ({_in_words(counts)}), but "
        f"{query.unproven} is not proven to mean the same in Spark. {query.hint}"
    )
    return _without_differences(comparison), [sentence]


def without_in_flight(comparison: Comparison, in_flight: RecordsInFlight) -> Judged:
    """Return a comparison without differences that records in flight explain.

    They explain no row that is there twice, and not more rows than they are.

    Args:
        comparison: The comparison.
        in_flight: Counts the records that a live run read or wrote meanwhile, or has yet to read.
    """
    counts = {kind: number for kind, number in comparison.counts.items() if number}
    records = in_flight.count() if counts else 0
    if not counts or "duplicated" in counts or sum(counts.values()) > records:
        return comparison, []
    why = f"which may be why rows differ ({_in_words(counts)})"
    if in_flight.is_live:
        sentence = (
            f"The live run goes on: {counted(records, 'record was', 'records were')} on the way "
            f"while topics and target were read, {why}. Audit again once nothing waits, or after "
            "`hybrid drain P`, which stops it then."
        )
    else:
        sentence = (
            f"The live run does not run: {counted(records, 'record is', 'records are')} not read "
            f"yet, {why}. Once `hybrid resume P` has read them, audit again."
        )
    return _without_differences(comparison), [sentence]


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in counts.items())


def _without_differences(comparison: Comparison) -> Comparison:
    return replace(comparison, counts=dict.fromkeys(comparison.counts, 0), examples={}, rounded={})

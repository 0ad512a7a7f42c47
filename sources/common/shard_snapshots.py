"""Snapshots of shards: a change is judged by the snapshot of the database that its topic is of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.sql.sql_names import literal


@dataclass(frozen=True)
class ShardSnapshots:
    """Snapshots of all shards, with the rules of one snapshot.

    Positions and transactions of two databases can't be compared, so a change is judged by the
    snapshot of the database that it comes from, which its topic identifies.

    Attributes:
        by_topic: The snapshot of each shard, by the topic of its changes; at least one.
    """

    by_topic: Mapping[str, DatabaseSnapshot]

    def holds(self, columns: Mapping[Any, str]) -> str:
        """Return an SQL condition that is true for changes which their shard's snapshot contains.

        Valid in Spark and in DuckDB, and never null; false for a change of another topic.

        Args:
            columns: SQL expressions of a change's parts by name, as of one snapshot, and its
                ``topic``.
        """
        return " OR ".join(
            f"({_is_of(topic, columns)} AND {snapshot.holds(columns)})"
            for topic, snapshot in self.by_topic.items()
        )

    def refusals(self, columns: Mapping[Any, str]) -> dict[str, str]:
        """Return SQL conditions of changes that must end the run, by the reason, a sentence.

        They may be null, which counts as false.

        Args:
            columns: As for :meth:`holds`.
        """
        found: defaultdict[str, list[str]] = defaultdict(list)
        for topic, snapshot in self.by_topic.items():
            for reason, condition in snapshot.refusals(columns).items():
                found[reason].append(f"({_is_of(topic, columns)} AND {condition})")
        return {reason: " OR ".join(conditions) for reason, conditions in found.items()}


def _is_of(topic: str, columns: Mapping[Any, str]) -> str:
    return f"coalesce({columns['topic']} = {literal(topic)}, false)"

"""What may be seen of a table, looked at after each commit, whoever made it."""

from __future__ import annotations

import json
from collections import Counter

from sources.serving import OWNER
from sources.storage.tables.delta_log import LOG
from tests.machine.invariants import WrongError
from tests.simulation.delta import Version, versions_of
from tests.simulation.world import World


class Watcher:
    """Looks at each commit at the moment when it is made.

    Args:
        world: The store.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._queries: dict[str, str | None] = {}

    def written(self, path: str) -> None:
        """Look at a document that was written, if it is a commit.

        Raises:
            WrongError: A row is in the table twice, or whoever committed does not own the table.
        """
        table, mark, _ = path.partition(f"/{LOG}/")
        if not mark:
            return
        if not (versions := versions_of(table)):
            # Deleted while the writer slept: no reader finds what lacks the first version.
            return
        version = versions[-1]
        self._require_once(table, version)
        self._require_owner(table, version)

    def rows(self, table: str) -> Counter[int]:
        """Return how often each row is in a table."""
        versions = versions_of(table)
        return self._rows(table, versions[-1]) if versions else Counter()

    def _rows(self, table: str, version: Version) -> Counter[int]:
        found: Counter[int] = Counter()
        for path in version.files:
            kept = self._world.store.documents.get(f"{table}/{path}")
            if kept is None:
                raise WrongError(
                    f"file {path} of {table} is gone, and version {version.number} lists it"
                )
            found.update(json.loads(kept.data))
        return found

    def _require_once(self, table: str, version: Version) -> None:
        twice = [row for row, count in self._rows(table, version).items() if count > 1]
        if twice:
            message = f"version {version.number} of {table} has rows twice: {sorted(twice)}"
            raise WrongError(message)

    def _require_owner(self, table: str, version: Version) -> None:
        """Only the owner's own query appends rows; a promotion names the new owner."""
        before = version.before
        is_append = any("add" in each for each in version.actions) and not any(
            "metaData" in each for each in version.actions
        )
        if before is None or not is_append:
            return
        owner = version.metadata["configuration"].get(OWNER)
        writers = version.own_transactions
        query = next(iter(writers), "")
        known = self._queries.setdefault(query, owner)
        if known != owner:
            message = (
                f"{query} of {known} has committed version {version.number} of {owner}'s {table}"
            )
            raise WrongError(message)

"""A captured database that does not answer, as a look has seen it."""

from __future__ import annotations

from typing import NamedTuple


class SilentDatabase(NamedTuple):
    """Database that does not answer, or refuses, and of which no slot or connector is declared.

    Of others the state of the slot is unknown then, which says the same.

    Attributes:
        why: What it answers instead, as text, with its address.
        since_ms: Since when it has been so at each look, in ms since 1970.
        shard: Topic of the shard whose database it is; empty without shards.
    """

    why: str
    since_ms: int
    shard: str = ""

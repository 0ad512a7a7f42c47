from __future__ import annotations

from typing import Any

from hybrid_extensions.cdc.databases.access import Access
from sources.errors import UnavailableError


def _unavailable(*_: Any) -> Any:
    message = "The database does not answer."
    raise UnavailableError(message, "Start it, then repeat what you did.")


ACCESS = Access(
    open_table=_unavailable,
    export=_unavailable,
    find_tables=_unavailable,
    mark_log=_unavailable,
    settle_log=_unavailable,
    ask_slot=lambda _: "The database does not answer.",
    find_added_columns=_unavailable,
    find_gone_columns=_unavailable,
    find_types=_unavailable,
    look_at_table=_unavailable,
    server_of=lambda dsn: dsn.partition("@")[2].partition("/")[0],
)

"""Planned files that are missing or were rewritten since they were listed."""

from __future__ import annotations

import pyarrow as pa

from sources.errors import InputError
from sources.files.listing.split_table import row_tuples
from sources.storage.base import FILES
from sources.storage.stores import Stores

# Number of changed files that a message lists one by one.
_SHOWN = 5


def changed_splits(splits: pa.Table, stores: Stores) -> list[str]:
    """Return planned files that are missing or were rewritten since they were listed.

    Called before files of a plan are read, and again before what was read of them is written.

    Each as ``<path> is missing`` or ``<path> was rewritten``; empty if none has changed. Compared
    are size, and ETag or else modification time; of a file from a Delta log only the size.

    Args:
        splits: Planned splits: a table with the columns of :data:`~sources.storage.base.FILES`.
        stores: Storages of the pipeline.

    Raises:
        UnavailableError: A storage does not answer.
        InputError: A storage refuses.
    """
    planned = {was[0]: was for was in row_tuples(splits, *FILES.names)}
    changed = []
    for was, file in zip(planned.values(), stores.stat([*planned]), strict=True):
        path, size, modified_ns, etag = was
        if file is None:
            changed.append(f"{path} is missing")
        elif file.size != size or (
            # Files in the log of a Delta table are never rewritten.
            modified_ns is not None and (file.etag or file.modified_ns) != (etag or modified_ns)
        ):
            changed.append(f"{path} was rewritten")
    return changed


def refuse_changed(source: str, splits: pa.Table, stores: Stores, what: str) -> None:
    """Refuse planned files that are missing or were rewritten since they were listed.

    Args:
        source: Name of the source.
        splits: Planned splits, as for :func:`changed_splits`.
        stores: Storages of the pipeline.
        what: What was not done, for the message, such as ``query was not started``.

    Raises:
        InputError: The message names up to five files; or a storage refuses.
        UnavailableError: A storage does not answer.
    """
    if changed := changed_splits(splits, stores):
        shown = "\n    ".join(changed[:_SHOWN])
        more = f"\n    and {len(changed) - _SHOWN:,} more" if len(changed) > _SHOWN else ""
        message = (
            f"Source `{source}` changed since it was planned:\n    {shown}{more}\n"
            f"The {what}: the table would lack planned rows, or hold others."
        )
        hint = (
            "If nothing of them was written, restore these files as they were planned and run the "
            "pipeline again (`hybrid run P`); or begin a new generation, which plans the files as "
            "they are now: `hybrid generation new P`."
        )
        raise InputError(message, hint, source=source)

"""Planned files that are missing or were rewritten since they were listed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sources.files.listing.split_table import row_tuples
from sources.storage.base import FILES
from sources.storage.stores import Stores


def changed_splits(splits: pa.Table, stores: Stores) -> list[str]:
    """Return planned files that are missing or were rewritten since they were listed.

    Called before files of a plan are read, and again before what was read of them is written.

    Each as ``<path> is missing`` or ``<path> was rewritten``; empty if none has changed. Compared
    are size, and ETag or else modification time; of a file from a Delta log only the size.

    Args:
        splits: Planned splits: a table of schema :data:`~sources.files.listing.split_table.SPLITS`.
        stores: Storages of the pipeline.

    Raises:
        UnavailableError: A storage does not answer.
        InputError: A storage refuses.
    """
    first = splits.filter(pc.equal(splits["offset"], 0))
    paths = first["path"].to_pylist()
    changed = []
    planned = row_tuples(first, *FILES.names)
    for was, file in zip(planned, stores.stat(paths), strict=True):
        path, size, modified_ns, etag = was
        if file is None:
            changed.append(f"{path} is missing")
        elif file.size != size or (
            # Files in the log of a Delta table are never rewritten.
            modified_ns is not None and (file.etag or file.modified_ns) != (etag or modified_ns)
        ):
            changed.append(f"{path} was rewritten")
    return changed

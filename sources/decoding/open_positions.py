"""Open positions of changes in a MySQL log: a transaction's changes share one.

The offset of each change's record completes it, so that it orders them.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# Sorts behind digits: earlier versions wrote the number of the row there.
OPEN = ":"
"""End of a position that a record's offset completes."""


def with_offsets(positions: pa.StringArray, offsets: pa.Int64Array) -> pa.StringArray:
    """Append the records' offsets to positions of MySQL, which transactions share.

    Positions of other databases are returned unchanged.

    Args:
        positions: Positions of changes in a database's log, as decoders make them; a null stays
            null.
        offsets: Offset of each record in its partition. All records of a key are in one partition.
    """
    is_open = pc.ends_with(positions, OPEN)
    if not pc.any(is_open).as_py():
        return positions
    return pc.if_else(
        is_open, pc.binary_join_element_wise(positions, padded(offsets, 20), ""), positions
    )


def padded(numbers: pa.Array, digits: int) -> pa.StringArray:
    """Return numbers as texts of so many digits, with zeros in front, so that they sort.

    A null stays null; a number with more digits is written in full.
    """
    return pc.utf8_lpad(numbers.cast(pa.string()), digits, "0")

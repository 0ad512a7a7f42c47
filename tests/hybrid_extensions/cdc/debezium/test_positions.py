"""Positions of MySQL's changes, which their places in the topic complete."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hybrid_extensions.cdc.debezium.positions import position
from sources.decoding.open_positions import with_offsets


def position_of(pos: int, row: int, offset: int, file: str = "binlog.000003") -> str:
    origin = {"connector": "mysql", "file": file, "pos": pos, "row": row}
    envelope: dict[str, Any] = {"op": "u", "source": origin}
    whole = with_offsets(pa.array([position(envelope, origin)]), pa.array([offset]))
    return str(whole[0].as_py())


def test_changes_of_a_compressed_transaction_come_as_in_the_topic() -> None:
    # As Debezium 3.6 reports three statements over three, two and one rows: of one event each.
    rows = [0, 1, 2, 0, 1, 0]
    found = [position_of(1234, row, 100 + at) for at, row in enumerate(rows)]
    assert found == sorted(found)
    assert len(set(found)) == len(found)
    assert position_of(1200, 9, 99) < found[0]
    assert found[-1] < position_of(1300, 0, 106)


def test_what_a_connector_sends_again_ends_with_the_same_change() -> None:
    # It was killed behind the third change, and begins with the second one again.
    first = [("a", 10), ("b", 11), ("c", 12)]
    again = [("b", 13), ("c", 14), ("d", 15)]
    last = max(first + again, key=lambda each: position_of(1234, 0, each[1]))
    assert last[0] == "d"
    # Of a transaction that is not the last one, all comes before what is there already.
    assert position_of(1234, 0, 16) < position_of(1300, 0, 12)


def test_rows_that_an_earlier_version_wrote_come_before_the_same_event_read_again() -> None:
    earlier = f"{3:012d}{1234:020d}{7:010d}"
    assert position_of(1233, 0, 5) < earlier < position_of(1234, 0, 5) < position_of(1235, 0, 4)


def test_other_positions_stay_as_they_are() -> None:
    others = pa.array(["g00000000010000", None, "0" * 42])
    assert with_offsets(others, pa.array([1, 2, 3])).equals(others)
    mixed = with_offsets(pa.array(["0" * 42, None, "12:"]), pa.array([1, 2, 3]))
    assert mixed.to_pylist() == ["0" * 42, None, f"12:{3:020d}"]

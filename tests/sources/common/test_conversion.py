from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sources.common.conversion import to_arrow_array
from sources.common.schema import TIMESTAMP
from tests.properties import examples

ZONES = st.sampled_from(
    [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))]
)
INSTANTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=ZONES)  # noqa: DTZ001


@examples(100)
@given(st.lists(st.none() | INSTANTS))
def test_instants_are_what_arrow_itself_makes_of_them(values: list[datetime | None]) -> None:
    assert to_arrow_array(values, TIMESTAMP).equals(pa.array(values, TIMESTAMP))


@examples(100)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_all_else_is_as_it_is(values: list[int | None]) -> None:
    assert to_arrow_array(values, pa.int64()).equals(pa.array(values, pa.int64()))

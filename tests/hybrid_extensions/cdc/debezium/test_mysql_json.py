"""A JSON document of MySQL has one text, whoever wrote it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.cdc.debezium.mysql_json import canonical_json
from tests.properties import examples

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8"), max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("of_server", "of_debezium", "text"),
    [
        ('{"a": [1, 2.0], "b": 1}', '{"a":[1,2.0],"b":1}', '{"a":[1,2.0],"b":1}'),
        ("1e100", format(int(1e100), "d"), "1e+100"),
        ("[1e-7]", f"[{1e-7:.120f}]", "[1e-07]"),
        ("0.00001", f"{1e-5:.120f}", "1e-05"),
        ("1e15", "1000000000000000", "1000000000000000"),
        ("123456789.0", "123456789", "123456789"),
        ("18446744073709551615", "18446744073709551615", "18446744073709551615"),
        ("1.10", "1.10", "1.1"),
        # A decimal of more digits than a double has.
        ("123456789012345678901.5", "123456789012345678901.5", "123456789012345678901.5"),
        ('"a  1.0 \\\\ \\u001f /"', '"a  1.0 \\\\ \\u001F /"', '"a  1.0 \\\\ \\u001f /"'),
        ("null", "null", "null"),
    ],
)
def test_server_and_connector_lead_to_one_text(of_server: str, of_debezium: str, text: str) -> None:
    assert (canonical_json(of_server), canonical_json(of_debezium)) == (text, text)


@examples(200)
@given(VALUES)
def test_no_value_changes_and_a_canonical_text_stays(value: object) -> None:
    text = canonical_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(text) == value
    assert canonical_json(text) == text

"""Tables that can't be captured: why, and what to do."""

from __future__ import annotations

import pytest

from hybrid_extensions.cdc.databases.captured_table import DatabaseTable, require_key
from sources.errors import InputError


def test_a_table_without_a_key_is_to_get_one() -> None:
    with pytest.raises(InputError, match=r"`shop\.orders` has no primary key") as caught:
        require_key(DatabaseTable("shop.orders", {"id": "bigint"}, [], {}))
    assert "ADD PRIMARY KEY" in caught.value.hint


def test_a_table_whose_key_is_not_captured_gets_no_second_one() -> None:
    table = DatabaseTable("shop.orders", {}, ["at"], {"at": "it is an interval"})
    with pytest.raises(InputError, match=r"key column `at`.*\(it is an interval\)") as caught:
        require_key(table)
    assert "ADD PRIMARY KEY" not in caught.value.hint

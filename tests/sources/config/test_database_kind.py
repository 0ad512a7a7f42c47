"""Which kind of database an address leads to."""

import pytest

from sources.config.database_kind import kind_of
from sources.errors import InputError


def test_another_address_is_refused_without_what_may_be_a_secret() -> None:
    refusal = r"No installed extension captures the database of `dsn: mssql://…`; known are: "
    with pytest.raises(InputError, match=refusal) as refused:
        kind_of("mssql://sa:hidden@db/shop")
    assert "hidden" not in str(refused.value)

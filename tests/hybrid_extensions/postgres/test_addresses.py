"""Which addresses lead to PostgreSQL."""

import pytest

from sources.config.database_kind import kind_of


@pytest.mark.parametrize(
    "dsn", ["host=db dbname=shop", "postgresql://reader@db/shop", "postgres://reader@db/shop"]
)
def test_an_address_tells_the_kind(dsn: str) -> None:
    assert kind_of(dsn).name == "postgres"

"""Which addresses lead to MariaDB and MySQL."""

import pytest

from sources.config.database_kind import kind_of


@pytest.mark.parametrize("dsn", ["mariadb://reader@db/shop", "mysql://reader@db:3306/shop"])
def test_an_address_tells_the_kind(dsn: str) -> None:
    assert kind_of(dsn).name == "mariadb"

"""Which kind of database an address leads to."""

import pytest

from sources.config.database_kind import kind_of
from sources.errors import InputError


@pytest.mark.parametrize(
    ("dsn", "kind"),
    [
        ("host=db dbname=shop", "postgres"),
        ("postgresql://reader@db/shop", "postgres"),
        ("postgres://reader@db/shop", "postgres"),
        ("mariadb://reader@db/shop", "mariadb"),
        ("mysql://reader@db:3306/shop", "mariadb"),
    ],
)
def test_an_address_tells_the_kind(dsn: str, kind: str) -> None:
    assert kind_of(dsn).name == kind


def test_another_address_is_refused_without_what_may_be_a_secret() -> None:
    with pytest.raises(InputError, match=r"`dsn: mssql://…` leads to no database") as refused:
        kind_of("mssql://sa:hidden@db/shop")
    assert "hidden" not in str(refused.value)
    assert "PostgreSQL" in str(refused.value)

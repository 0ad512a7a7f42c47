"""Which addresses lead to PostgreSQL."""

import pytest

from sources.config.database_kind import kind_of
from sources.config.source.snapshot import SnapshotOptions


@pytest.mark.parametrize(
    "dsn", ["host=db dbname=shop", "postgresql://reader@db/shop", "postgres://reader@db/shop"]
)
def test_an_address_tells_the_kind(dsn: str) -> None:
    assert kind_of(dsn).name == "postgres"


@pytest.mark.parametrize(
    "dsn", ["host=db password=geheim", "postgresql://me:geheim@db/shop", "PASSWORD = geheim"]
)
def test_a_password_in_the_file_is_refused_and_not_shown(dsn: str) -> None:
    with pytest.raises(ValueError, match="PGPASSWORD") as refused:
        SnapshotOptions(dsn=dsn, slot="shop")
    assert "geheim" not in str(refused.value)

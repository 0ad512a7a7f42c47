"""Which addresses lead to MariaDB and MySQL, and where the password comes from."""

import pytest

from hybrid_extensions.mariadb.server import connect, parse_address
from sources.config.database_kind import kind_of
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError


@pytest.mark.parametrize("dsn", ["mariadb://reader@db/shop", "mysql://reader@db:3306/shop"])
def test_an_address_tells_the_kind(dsn: str) -> None:
    assert kind_of(dsn).name == "mariadb"


@pytest.mark.parametrize("dsn", ["mysql://me:geheim@db/shop"])
def test_a_password_in_the_file_is_refused_and_not_shown(dsn: str) -> None:
    with pytest.raises(ValueError, match="MYSQL_PWD") as refused:
        SnapshotOptions(dsn=dsn, slot="shop")
    assert "geheim" not in str(refused.value)


def test_the_password_of_a_database_may_be_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    monkeypatch.setenv("MYSQL_PWD_FILE", "/gone")
    with pytest.raises(InputError, match="MYSQL_PWD_FILE names, can't be read"):
        connect(parse_address("mariadb://reader@127.0.0.1:1/shop"), "history")

"""Which addresses lead to MariaDB and MySQL, and where the password comes from."""

import pymysql
import pytest

from hybrid_extensions.mariadb.log import log_end
from hybrid_extensions.mariadb.server import connect, parse_address
from sources.config.database_kind import kind_of
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError, UnavailableError


@pytest.mark.parametrize("dsn", ["mariadb://reader@db/shop", "mysql://reader@db:3306/shop"])
def test_an_address_tells_the_kind(dsn: str) -> None:
    assert kind_of(dsn).name == "mariadb"


@pytest.mark.parametrize("dsn", ["mysql://me:geheim@db/shop"])
def test_a_password_in_the_file_is_refused_and_not_shown(dsn: str) -> None:
    with pytest.raises(ValueError, match="MYSQL_PWD") as refused:
        SnapshotOptions(dsn=dsn, slot="shop")
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    ("dsn", "told"),
    [
        ("mariadb://db/shop", "is no address with a host and a user"),
        ("mariadb://me@db/shop?ssl_mode=required", "the option `ssl_mode=REQUIRED`, which is not"),
        ("mariadb://me@db/shop?charset=utf8", "the option `charset`, which is not known"),
    ],
)
def test_what_is_wrong_with_an_address_is_named(dsn: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse_address(dsn)


def test_the_way_out_of_no_answer_is_not_that_of_a_snapshot() -> None:
    with pytest.raises(UnavailableError, match="Connecting to the database") as caught:
        connect(parse_address("mariadb://reader@127.0.0.1:1/shop"), "database")
    assert "snapshot" not in caught.value.hint


def test_a_privilege_that_is_missing_is_not_told_as_a_server_that_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> None:
        raise pymysql.OperationalError(1227, "Access denied")

    monkeypatch.setattr(log_end, "require_heartbeats", lambda _: None)
    monkeypatch.setattr(log_end, "connect", refused)
    with pytest.raises(InputError, match="Access denied") as caught:
        log_end.mark_log(SnapshotOptions(dsn="mysql://me@db/shop"))
    assert "Grant REPLICATION CLIENT" in caught.value.hint


def test_the_password_of_a_database_may_be_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    monkeypatch.setenv("MYSQL_PWD_FILE", "/gone")
    with pytest.raises(InputError, match="MYSQL_PWD_FILE names, can't be read"):
        connect(parse_address("mariadb://reader@127.0.0.1:1/shop"), "history")

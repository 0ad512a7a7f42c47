"""Databases whose changes are captured."""

from tests.e2e.changes.conftest import case as case  # noqa: PLC0414 - the fixtures
from tests.e2e.changes.conftest import mariadb_case as mariadb_case  # noqa: PLC0414
from tests.e2e.changes.conftest import mysql_case as mysql_case  # noqa: PLC0414

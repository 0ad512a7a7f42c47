"""Databases of each worker's own: these tests compare positions to the last transaction."""

from tests.sources.databases.conftest import mariadb as mariadb  # noqa: PLC0414 - the fixtures
from tests.sources.databases.conftest import mysql as mysql  # noqa: PLC0414
from tests.sources.databases.conftest import postgres as postgres  # noqa: PLC0414

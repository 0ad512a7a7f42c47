"""Databases of each worker's own: these tests compare positions to the last transaction."""

from tests.hybrid_extensions.cdc.databases.conftest import mariadb as mariadb  # noqa: PLC0414 - the fixtures
from tests.hybrid_extensions.cdc.databases.conftest import mysql as mysql  # noqa: PLC0414
from tests.hybrid_extensions.cdc.databases.conftest import postgres as postgres  # noqa: PLC0414

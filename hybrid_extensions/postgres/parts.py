"""PostgreSQL among the kinds of databases."""

from sources.config.database_kind import POSTGRES
from sources.databases.kinds import DatabaseParts

PARTS = [
    DatabaseParts(
        POSTGRES,
        "PostgreSQL",
        access="hybrid_extensions.postgres.access:POSTGRES_ACCESS",
        starter="hybrid_extensions.postgres.starter:STARTER",
        compared_rows="hybrid_extensions.postgres.compared_rows",
    )
]

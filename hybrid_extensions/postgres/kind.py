"""Registration of PostgreSQL as a kind of database."""

from sources.config.database_kind import DatabaseKind

POSTGRES = DatabaseKind(
    name="postgres",
    title="PostgreSQL",
    # Connection strings of libpq: URLs, or `host=… dbname=…`.
    addresses=r"postgres(ql)?://|(?!\w+://)",
    parts=("position", "lsn", "transaction", "committed_at"),
    has_slots=True,
    leaves_out=True,
    schema="schema",
    password="PGPASSWORD",
    access="hybrid_extensions.postgres.access:POSTGRES_ACCESS",
    starter="hybrid_extensions.postgres.starter:STARTER",
    compared_rows="hybrid_extensions.postgres.compared_rows",
)
KINDS = [POSTGRES]

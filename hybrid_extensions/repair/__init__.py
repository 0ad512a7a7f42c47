"""Repair of a captured table in place: rows that differ are read from the database once more.

Belongs here: which tables can be repaired, which rows differ, how long to wait for the live run,
the position that repaired rows get, which changes that could not be read a repair puts right, and
the commit that writes them next to the live run. Does not
belong here: the comparison that proves a table (`hybrid_extensions.compare`), and the record that
the audit and the status read (`spark_jobs.run_state.repairs`).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "repair",
    commands="hybrid_extensions.repair.cli:app",
    status="hybrid_extensions.repair.status:status_part",
    actions="hybrid_extensions.repair.dagster:actions",
)

"""Adoption of an existing Delta table by the first generation of a pipeline, in place of history.

Belongs here: which tables can be adopted, at which position the stream continues, and the decisions
that stand for those of a plan, of bounded sources and of a hand-over. Does not belong here: what
the commits of a table say of its position (`spark_jobs.table.commit_position`).
"""

from sources.extensions import Extension

LOST_STATE = (
    "If the transform keeps no state, the commits of the table record the position to continue "
    "from: move the state folder away, then `hybrid adopt P --from-commits` shows what would be "
    "taken."
)
EXTENSION = Extension(
    "adopt",
    commands="hybrid_extensions.adopt.cli:app",
    lost_state="hybrid_extensions.adopt:LOST_STATE",
)

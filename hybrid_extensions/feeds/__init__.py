"""Feeds: PostgreSQL, Redis, Kafka and user functions as second sinks of the target's rows.

They are fed from the commits of the Delta table, which stays the only truth. Belongs here: what
changed between two versions of the table, how it is delivered, and what a sink remembers of it.
Does not belong here: writing the target (spark_jobs), and when a follower runs (orchestration).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "feeds",
    section="hybrid_extensions.feeds.declare:FeedsSection",
    commands="hybrid_extensions.feeds.cli:app",
    definitions="hybrid_extensions.feeds.dagster:feed_definitions",
    status="hybrid_extensions.feeds.status:status_part",
)

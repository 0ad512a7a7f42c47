"""Ranges of event time: recomputed one by one from the files, while the live run continues.

Belongs here: which files a range is read from, the run next to the live one, the commit that
replaces its rows, and partitions in Dagster. Does not belong here: which files of the table hold
history (`hybrid_extensions.generations.files.range_history`), and generations of the whole table.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "ranges",
    section="hybrid_extensions.ranges.declare:RangesSection",
    commands="hybrid_extensions.ranges.cli:app",
    definitions="hybrid_extensions.ranges.dagster:definitions",
    location_definitions="hybrid_extensions.ranges.request_job:definitions",
    jobs="hybrid_extensions.ranges.jobs:JOBS",
)

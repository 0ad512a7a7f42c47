"""Merging of changes by the order of their sequence, or as versions of rows.

Belongs here: `sink.sequence` and `sink.history`: which change of a row counts; deletes, TRUNCATEs,
values that a change lacks; small micro-batches that the driver merges itself. Does not belong here:
the MERGE itself (`spark_jobs.inside.sink.merging`).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "ordered_changes",
    ordered_merging="hybrid_extensions.ordered_changes.spark.ordered_merging:ordered_merging",
)

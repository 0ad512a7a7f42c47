"""OpenLineage events of a pipeline's steps; needs the extra ``lineage``.

Belongs here: which datasets and columns an event names, and when one is sent.

A pipeline without ``lineage`` imports and sends nothing. An event that can't be delivered is
reported as a warning, and stops no run.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "lineage",
    section="hybrid_extensions.lineage.declare:LineageSection",
    steps="hybrid_extensions.lineage.steps:observer",
)

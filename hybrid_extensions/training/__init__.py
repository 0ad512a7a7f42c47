"""Training sets: the values of a table that were known at the times of labels.

Belongs here: the point-in-time join, and the declared sets that are computed by it. Only the
comparison of what feeds served with training imports it, if it is installed.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "training",
    section="hybrid_extensions.training.sets.declare:TrainingSection",
    commands="hybrid_extensions.training.cli:app",
    definitions="hybrid_extensions.training.dagster:definitions",
)

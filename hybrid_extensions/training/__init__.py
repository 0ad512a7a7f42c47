"""Training sets: the values of a table that were known at the times of labels.

Removable: nothing else but its command imports it.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "training",
    section="hybrid_extensions.training.sets.declare:TrainingSection",
    commands="hybrid_extensions.training.cli:app",
    definitions="hybrid_extensions.training.dagster:definitions",
)

"""Files of history that become files of the target as copies (`sink.copy_files`).

Belongs here: which files need no rewriting, and the sink that copies them. Does not belong here:
what a plan keeps of that (`sources.planning.files.copied_files`).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "copied_files",
    copied_files="hybrid_extensions.copied_files.copyable_sources:plan_copies",
    transform_checks="hybrid_extensions.copied_files.spark.identity:require_identity",
    copying_sink="hybrid_extensions.copied_files.spark.history:copying_sink",
)

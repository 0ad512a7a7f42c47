"""`hybrid init`: first versions of pipelines, for files and for tables of a database.

Belongs here: what is detected in files, and the files that are written for people to edit. Does not
belong here: what a kind of database has to add, which its extension says
(`hybrid_extensions.cdc.capture_starter`).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "starter",
    commands="hybrid_extensions.starter.cli:app",
    whole_file_commands=("init",),
    scaffolder="hybrid_extensions.starter.dagster_scaffolder:PipelineScaffolder",
)

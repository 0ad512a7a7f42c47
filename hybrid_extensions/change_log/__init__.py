"""Change log: a database's changes in files, for pipelines that have no Kafka.

Belongs here: Debezium's engine in a process of its own, the segments that it is written to, and the
server that lets clients of Kafka read them. Does not belong here: how pipelines read a topic.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "change_log",
    commands="hybrid_extensions.change_log.cli:app",
    whole_file_commands=("change-log",),
)

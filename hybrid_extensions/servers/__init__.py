"""Real servers for development and tests, on free ports; they clean up after themselves.

Belongs here: starting and stopping Kafka, Kafka Connect, databases, an S3 server and a Hive
metastore on this machine, when each counts as started, the logins of their listeners, and where
their programs come from. Does not belong here: clients of such servers (`sources`).
"""

from sources.extensions import Extension

EXTENSION = Extension("servers", commands="hybrid_extensions.servers.cli:app")

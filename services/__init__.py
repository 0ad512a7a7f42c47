"""Real servers for development and tests: they start on free ports and leave nothing behind.

Belongs here: starting and stopping Kafka, Kafka Connect, PostgreSQL, an S3 server and a Hive
metastore on this machine. Does not belong here: clients of such servers (`sources`).
"""

"""Databases: the snapshot of a table, and the place in the log that its changes come from.

Belongs here: whatever connects to a database; each kind is a package of its own. Does not belong
here: Debezium's envelopes in Kafka (`sources.decoding`).
"""

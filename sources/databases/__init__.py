"""Databases: the snapshot of a table, and the replication slot that its changes come from.

Belongs here: whatever connects to a database. Does not belong here: Debezium's envelopes in Kafka
(`sources.decoding`).
"""

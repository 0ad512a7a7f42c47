"""Kafka sources: look-ups in topics, start and end offsets, the seam, retention.

Belongs here: every rule that turns a time or a position into offsets, where the seam ends and which
rule applies in it, and everything about gaps. Does not belong here: the values of records
(`decoding`), or the plan of a topic (`planning`).
"""

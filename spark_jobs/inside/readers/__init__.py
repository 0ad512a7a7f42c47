"""Readers of sources in Spark: planned files, ranges of topics, followed topics.

Belongs here: the plan as a Delta log, readers of its splits, Kafka streams, parsing of records,
bad records, and errors that cross from tasks to the driver. Does not belong here: how the rows of
all sources become one query (`query`), or the decoders themselves (`sources.decoding`).
"""

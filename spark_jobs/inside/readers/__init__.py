"""Readers of sources in Spark: planned files, ranges of topics, followed topics.

Belongs here: the plan as a Delta log, readers of its splits, Kafka streams, parsing of records, and
bad records. Does not belong here: how the rows of all sources become one query (`query`), what an
exception of Spark means (`errors`), or the decoders themselves (`sources.decoding`).
"""

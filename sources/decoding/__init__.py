"""From the bytes of a Kafka record to a row: JSON, Avro, and Debezium's envelopes.

Belongs here: decoders, record by record and for whole Arrow batches, the schema registry, and the
conversion of values to column types. Does not belong here: what happens to records that can't be
decoded (`spark_jobs.inside.readers.staged_bad_records`).
"""

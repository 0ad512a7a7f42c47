"""From the bytes of a record to a row: JSON, Avro, Protobuf, and Debezium's envelopes.

Belongs here: decoders, one by one and in whole Arrow batches, the schema registry, and the
conversion of values to column types. Does not belong here: what becomes of records that can't be
decoded (`spark_jobs.query.bad_records`).
"""

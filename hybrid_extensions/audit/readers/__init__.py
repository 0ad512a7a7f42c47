"""Readers of raw input for the audit: files and topics, without Spark and without the plan.

Code that the runs use to find or parse input does not belong here, except for the decoder of
Avro, Protobuf and Debezium records (:mod:`sources.decoding.row_decoder`).
"""

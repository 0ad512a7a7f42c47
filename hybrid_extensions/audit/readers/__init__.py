"""Readers of raw input for the audit: files and topics, without Spark and without the plan.

Belongs here: which files a glob stands for; at which version a table is read; how lines of JSON and
CSV are parsed without the runs' parser; and which records are bad.

Code that the runs use to find or parse input does not belong here, except for the decoder of
Avro, Protobuf and Debezium records (:mod:`sources.decoding.row_decoder`).
"""

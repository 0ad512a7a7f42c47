"""Values of topics in Protocol Buffers: what a topic declares of them, and their decoder.

Belongs here: a message's columns, decoded one by one or many at a time, and the message indexes of
Confluent's wire format. Does not belong here: the schema id in front of them, which Avro has, too
(`sources.decoding.schema_registry`).
"""

from sources.extensions import Extension

EXTENSION = Extension("protobuf", value_formats="hybrid_extensions.protobuf.declare:FORMATS")

"""Avro: files, values of topics, and whatever a schema registry describes.

Belongs here: decoding by schemas of Avro, and the registry's client. Does not belong here: the
schema id in front of values, which Protobuf has, too (`sources.decoding.schema_registry`).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "avro",
    value_formats="hybrid_extensions.avro.declare:FORMATS",
    file_formats="hybrid_extensions.avro.file_format:FORMATS",
    registered_values="hybrid_extensions.avro.registered:REGISTERED",
)

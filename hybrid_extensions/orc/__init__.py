"""Files of Apache ORC (https://orc.apache.org/specification/), read by Arrow."""

from sources.extensions import Extension

EXTENSION = Extension("orc", file_formats="hybrid_extensions.orc.formats:FORMATS")

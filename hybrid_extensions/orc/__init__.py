"""Files of Apache ORC (https://orc.apache.org/specification/), read by Arrow.

Belongs here: how a file is read, the time zone that its times count in, and which dates and times
are refused.
"""

from sources.extensions import Extension

EXTENSION = Extension("orc", file_formats="hybrid_extensions.orc.formats:FORMATS")

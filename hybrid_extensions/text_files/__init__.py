"""Files of text: CSV, JSON lines, and lines as they are.

Belongs here: parsing a file's bytes into rows. Does not belong here: what a source declares of them
(`sources.formats.csv_options`), and JSON values of Kafka records (`sources.decoding.json`).
"""

from sources.extensions import Extension

EXTENSION = Extension("text_files", file_formats="hybrid_extensions.text_files.formats:FORMATS")

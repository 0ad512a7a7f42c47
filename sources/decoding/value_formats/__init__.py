"""Formats of a Kafka record's value, one module each; :mod:`.registry` lists them."""

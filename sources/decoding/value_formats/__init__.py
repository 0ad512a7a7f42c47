"""Formats of a Kafka record's value, one module each; `registry` lists them.

Belongs here: which fields a format declares, and the decoder that it gets.
"""

"""Presentation in Dagster: metadata, cards, errors and hints.

Belongs here: how often the supervision reports the same and a step tells how far it is, which error
Dagster retries, and the words, tables and numbers that its pages show.
"""

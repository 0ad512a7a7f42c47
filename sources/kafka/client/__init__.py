"""Requests to Kafka: look-ups, samples, and what a failed one means.

Belongs here: which failed request is worth another try, which topics are created, and what a
look-up by time means where records are dated in the future.
"""

"""Requests to Kafka: look-ups, samples, and what a failed one means."""

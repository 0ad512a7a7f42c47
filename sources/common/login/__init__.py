"""Login and TLS of Kafka clients."""

"""Format `debezium`: its declaration, and the decoder of its envelopes, also in batches."""

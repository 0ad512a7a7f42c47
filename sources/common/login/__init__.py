"""Login and TLS of Kafka clients, also by OAuth and for Amazon MSK.

Belongs here: which fields a login has, what its settings are for librdkafka and for Spark, and when
a token is fetched again.
"""

"""Format `debezium`: its declaration, and the decoder of its envelopes, also in batches.

Belongs here: which fields a captured topic declares; what a change's envelope makes of a row; which
change is read as a batch and which one by one; names and types of columns that changed later; and
what a long value is that a change left out.
"""

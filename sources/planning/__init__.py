"""The plan: what will be read, in which order, and every refusal that can be known beforehand.

Belongs here: planning files, folders and topics, comparing schemas, who may approve, which changes
of a declaration need a new generation, files that arrive later, exports. Does not belong here: the
run that reads the plan (`spark_jobs`).
"""

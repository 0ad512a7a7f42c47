"""The plan: what will be read, in which order, and every refusal that can be known beforehand.

Belongs here: planning files, folders and topics, comparing schemas, approval, files that arrive
later, exports. Does not belong here: the run that reads the plan (`spark_jobs`).
"""

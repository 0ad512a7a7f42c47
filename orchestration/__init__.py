"""What runs when, and what people see of it: Dagster definitions, command line, supervision, audit.

Belongs here: the steps of a chain and the loop over them (`chain`), what each does (`operations`),
and everything that calls them. Does not belong here: data logic; rows are read and written by
`spark_jobs`.
"""

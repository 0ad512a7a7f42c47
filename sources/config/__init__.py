"""The declaration of a pipeline: Pydantic models, and how the YAML file is read into them.

Belongs here: fields that users write, their checks, and their documentation. Does not belong here:
checks that look at data or at a broker (`planning`).
"""

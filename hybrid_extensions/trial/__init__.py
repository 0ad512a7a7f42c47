"""Trial runs over a sample of a pipeline's keys, which leave the pipeline untouched.

Belongs here: which keys are in the sample, and what is compared with the serving table.

The sample is a pipeline of its own, with its own state and target in a folder that is removed
afterwards. It is planned, run and audited by what plans, runs and audits every pipeline.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "trial",
    commands="hybrid_extensions.trial.cli:app",
    actions="hybrid_extensions.trial.dagster:actions",
)

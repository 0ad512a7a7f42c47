"""Pipeline as a component of any Dagster project: a folder with its file and its functions.

``defs/orders/defs.yaml`` next to ``orders.yaml``::

    type: orchestration.component.HybridPipeline
    attributes: {pipeline: orders.yaml}

``dg scaffold defs orchestration.component.HybridPipeline orders`` writes both, with a transform.
"""

import dagster as dg

from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.scaffolder import PipelineScaffolder
from sources.config.loader import load_pipeline


@dg.scaffold_with(PipelineScaffolder)
class HybridPipeline(dg.Component, dg.Model, dg.Resolvable):
    """Dagster component of one pipeline: a table of history from files, then updated from Kafka.

    Attributes:
        pipeline: The pipeline's file, relative to the component's folder.
    """

    pipeline: str

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the pipeline's assets, checks, jobs, schedules and sensor; called by Dagster.

        Raises:
            InputError: The pipeline's file is missing or not valid; Dagster shows it for the
                component.
        """
        # Of a component in code the path is that of its `component.py`.
        folder = context.path if context.path.is_dir() else context.path.parent
        # Dagster notes the component on each asset, so that two which describe the same topic or
        # folder would conflict.
        return pipeline_definitions(load_pipeline(folder / self.pipeline), with_upstream=False)

"""Pipeline as a component of any Dagster project: a folder with its file and its functions.

``defs/orders/defs.yaml`` next to ``orders.yaml``::

    type: orchestration.component.HybridPipeline
    attributes: {pipeline: orders.yaml}

``dg scaffold defs orchestration.component.HybridPipeline orders`` writes both, with a transform.
"""

import dagster as dg

from orchestration.defs.assets.unloadable_pipeline import UnreadableFile, unreadable_definitions
from orchestration.defs.known_files import load_known
from orchestration.pipeline_definitions import pipeline_definitions
from sources.extensions import contributions


class HybridPipeline(dg.Component, dg.Model, dg.Resolvable):
    """Dagster component of one pipeline: a table of history from files, then updated from Kafka.

    Attributes:
        pipeline: The pipeline's file, relative to the component's folder.
    """

    pipeline: str

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the pipeline's assets, checks, jobs, schedules and sensor; called by Dagster.

        A file that is missing or not valid raises nothing: it is an asset whose check fails with
        the reason. An error would end the supervision of all pipelines of the code location.
        """
        # Of a component in code the path is that of its `component.py`.
        folder = context.path if context.path.is_dir() else context.path.parent
        # Dagster notes the component on each asset, so that two which describe the same topic or
        # folder would conflict.
        file = (folder / self.pipeline).absolute()
        try:
            return pipeline_definitions(load_known(file), with_upstream=False)
        # Such as of Dagster itself, about a cron expression.
        except Exception as error:
            return unreadable_definitions(UnreadableFile(file, error))


for _scaffolder in contributions("scaffolder"):
    dg.scaffold_with(_scaffolder)(HybridPipeline)

"""Schema changes of a captured table: the driver adopts what the policies of the table say.

The micro-batch that meets the change fails before it writes. The driver asks what became of the
columns, keeps that in the state of the generation, and builds the query again on the same
checkpoint: the start of a query adds, widens or empties the columns of the target. A driver that is
killed before the state is written meets the change again; after that, the next one completes the
target.
"""

from __future__ import annotations

import sys

from sources.captured_tables import changes_to_follow
from sources.common.counting import counted
from sources.planning.context import PipelineContext
from sources.planning.topics.followed_columns import keep_followed, not_followed
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.inside.errors.error_reports import report_of


def follow_columns_of(
    context: PipelineContext, error: Exception, reporter: Reporter
) -> PipelineContext | None:
    """Adopt the schema change (columns added or widened) that a query over a table failed at.

    Asks the database for types and defaults, and keeps them in the generation's state; the target
    gets the columns when the query is built again. Called with the failure of a query.

    Returns:
        The pipeline with these columns, with which the query has to be built again; None if the
        query failed for another reason, or columns are not followed (``on_schema_change``).

    Raises:
        HybridError: The change can't be followed: the error of the query with the reason.
        UnavailableError: The database does not answer.
    """
    failure = report_of(error)
    if (changes := changes_to_follow(context, failure)) is None:
        return None
    keep_followed(context.generation, changes)
    made = PipelineContext(context.loaded, context.generation)
    if made.pipeline == context.pipeline:
        # Or the query would fail at the same change for ever.
        raise not_followed(failure, "the pipeline's file declares the column otherwise")
    listed = "; ".join(str(each) for each in changes)
    table = context.pipeline.topic_source(context.pipeline.sources[-1].name).changes
    assert table is not None  # only its changes are followed
    text = f"{counted(len(changes), 'change')} of table `{table.table}` followed: {listed}."
    sys.stderr.write(f"{text}\n")
    reporter.listeners.log(text)
    return made

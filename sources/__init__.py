"""What to read and where to start: sources, their splits, and the hand-over between them.

The terms are Flink's (FLIP-27, FLIP-150). Belongs here: the chain of sources and who is next in it
(`hybrid`), the hand-over from one to the next (`hand_over`, its `ledger`), the generations of a
pipeline (`generations`), and the error types (`errors`). Does not belong here: anything that needs
Spark or Dagster; neither is imported.
"""

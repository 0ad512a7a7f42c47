"""Operations on a pipeline's chain: plan it, read a bounded source, start and stop the stream.

Belongs here: what a step of a chain, a command and the supervision do, each repeatable: what was
decided is read, what was done is not done again. Does not belong here: the order of the steps
(`chain`), and the hand-over, which needs no Spark (`sources.hand_over`).
"""

"""Operations on generations: begin, compare, promote, roll back, backfill ranges.

Belongs here: commands on generations. Does not belong here: which generation serves, which is a
rule of `sources.generations`.
"""

"""Rules that judge a live run, as pure functions.

Belongs here: when a live run is dead, stuck, catching up or healthy; how long it takes to catch up;
and what a clock that is wrong changes in that.
"""

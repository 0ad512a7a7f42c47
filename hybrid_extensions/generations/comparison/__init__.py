"""Comparison of the candidate's table with the serving one."""

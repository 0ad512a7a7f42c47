"""A report about one pipeline as a single HTML page, for tickets and for people without access.

What is known is collected (:mod:`~orchestration.report.collect`) into one model
(:mod:`~orchestration.report.model`), which is then rendered (:mod:`~orchestration.report.page`).
Code that decides or changes anything does not belong here: the page shows what plan, ledger, state
and status contain already.
"""

"""Budgets: what may be used in all or in a month, the ledger of what was used, and what they let start.

For whoever shows them: ``concerned.budgets_of`` (an experiment's) and ``standing.standing`` (of one).
"""

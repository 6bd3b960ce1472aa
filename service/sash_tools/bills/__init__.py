"""Recorded requests with what they were billed: ``sash truth`` compares predictions with them, and asks for more.

::

    files ── truth_rows ──▶ TruthRow ── bill.compared ──▶ Bill ── bill_tables ──▶ tables of vendors, rules, families, misses
    probes ─┘                   ▲                           └── bill_rules: the rules that a bill rests on
                                └── questions.Questions: a provider's own answers, as new rows
"""

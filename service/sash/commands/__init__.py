"""The commands of ``sash``, one file for each; ``cli`` joins them.

A command imports slow modules only when it runs, so that ``sash --help`` stays quick.
"""

"""The commands for operators, one file for each. ``cli`` joins them and those of ``sash_tools``.

A command imports slow modules only when it runs, so that ``sash --help`` stays quick.
"""

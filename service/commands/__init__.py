"""The commands of ``sash``, one file each; ``cli`` puts them together.

A command imports what costs time only when it runs, so that ``sash --help`` stays quick.
"""

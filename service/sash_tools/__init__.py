"""Commands on files: windows and counts of a history, other programs' histories, bills, replays. Nobody on call needs them.

The commands are ``sash window``, ``count``, ``import``, ``export``, ``truth`` and ``replay``.
"""

"""What is used at a desk, and never on call: commands on histories in files, other programs' histories, bills, replays.

The commands are ``sash window``, ``count``, ``import``, ``export``, ``truth`` and ``replay``.
"""

"""Conversations as other programs keep them, and how each becomes entries.

::

    bytes ── detect ─┬─ our own lines, plain chat messages
                     ├─ langchain   {"type": "human", "data": {…}}
                     ├─ agents      {"type": "function_call", …}, in SQLite or as a list
                     └─ memory_server  {"session_id": …, "messages": […]}
      └── native     a provider's own messages, where --format names it

Everything here maps values to values, but for the one function that opens a SQLite file.
"""

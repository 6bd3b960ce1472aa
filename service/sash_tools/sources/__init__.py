"""Read conversations of other programs as entries.

::

    bytes ── detect ─┬─ our own lines, plain chat messages
                     ├─ langchain   {"type": "human", "data": {…}}
                     ├─ agents      {"type": "function_call", …}, in SQLite or as a list
                     ├─ programs_read  UIMessages, logs of coding agents, exports of chats, ShareGPT
                     └─ memory_server  {"session_id": …, "messages": […]}
      └── native     a provider's own messages, where --format names it

All functions here map values to values, except the one that opens a SQLite file.
"""

"""Server-sent events: what changes in a conversation, or in an owner's, told to its readers.

::

    the store ─ wakes ─▶ Followers ─▶ Feed (one a conversation) ─ reads once ─▶ EventStream (one a reader) ─▶ HTTP
"""

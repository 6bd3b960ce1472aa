"""Server-sent events: what changes in a conversation, or in an owner's, told to its readers.

::

    the store ─ wakes ─▶ Followers ─▶ Feed (one a conversation) ─ reads once, pushes ─▶ a reader's EventStream ─▶ HTTP
                                        ◀─ the reader pulls what it lacks, when the socket has taken what it has ─┘
"""

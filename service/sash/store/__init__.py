"""The store: conversations in Redis or Valkey. ``layout.py`` describes the data. Where to begin:

::

    conversations   create, append, change, erase; ``history`` changes older messages, ``staging`` copies and imports
    reading         the other way: ``replies`` makes a state, a tail or a page of one reply
    scripts         Lua as typed functions, called by all of these; ``entries`` and ``messages`` are what they are given
    client          from a call to a socket: ``cluster``, ``servers``, ``pipeline``, ``redis_parts``
    durability      whether a server may be written to, with ``permissions`` and ``versions``
    sealing         encryption at rest, with the keys of ``datakeys``
    owners          lists of conversations; also ``tenants``. Other data: ``claims``, ``usage``, ``keys``, ``limits``,
                    ``columns``, ``indexing``
    embedded        a server of our own, without SASH_REDIS_URL
    checks          for sash doctor; also ``trial``
"""

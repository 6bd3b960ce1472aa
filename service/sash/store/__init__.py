"""The store: conversations in Redis or Valkey, in two rooms; ``data`` imports ``redis``. Where to begin:

::

    data    layout          describes what is stored
            conversations   create, append, change, erase; ``histories`` changes what is older, ``staging`` imports
            tails           the other way: the end of a conversation, of which a window is made, in one read
            reading         all else of conversations; ``replies`` has what both give
            script_calls    Lua as typed functions, called by all of these: ``append_script``, ``write_scripts``,
                            ``read_scripts``, ``tails``; with ``entries`` and ``stored_messages``
            sealing         encryption at rest, with the keys of ``datakeys``
            owners          lists of conversations; also ``tenants``. Other data: ``claims``, ``usage``, ``api_keys``,
                            ``limits``, ``columns``, ``indexing``
            trial           tries every command on a store, for sash doctor
    redis   client          from a call to a socket: ``lua``, ``cluster``, ``servers``, ``pipeline``, ``redis_parts``
            durability      whether a server may be written to, with ``permissions`` and ``versions``
            embedded        a server of our own, without SASH_REDIS_URL
            checks          for sash doctor
"""

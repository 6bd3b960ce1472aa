"""The HTTP API: thin handlers, and what is around them.

::

    ring ── every request: id, tenant (keys), deadline, sizes (incoming, large), end of the process (drain)
      └─ idempotency ── requests with an Idempotency-Key
           └─ direct, or Litestar ── a handler of conversations, messages, history, transfer, owners, window, search,
                                     counting, operations or docs

A handler reads its request with ``body``, calls the objects of ``context``, and answers with a struct of ``schemas``;
``errors`` renders what was raised. ``openapi`` makes the document from what handlers declare.
"""

"""The HTTP API: thin handlers, and the middleware around them.

::

    middleware.layer ── every request: id, tenant (callers), deadline, sizes (incoming, large), end of the process (drain)
      └─ middleware.idempotency ── requests with an Idempotency-Key
           └─ direct, or Litestar ── a handler: conversation_handlers, message_handlers, window_handlers, … or docs

A handler reads its request with ``incoming`` and ``body``, calls the objects of ``context``, and answers with a struct of
``schemas``; ``middleware.errors`` renders what was raised. ``openapi`` makes the document from what handlers declare.
"""

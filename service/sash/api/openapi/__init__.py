"""The OpenAPI 3.1 document, built from the declarations of handlers, Structs and problems.

::

    handlers ── @documented: summary, body, answer ─┐
    Structs ─── types, bounds, meanings, names ─────┼─ document() ─ openapi.json, GET /openapi.json, sash openapi
    problems ── responses and their pages ──────────┤
    examples ── recorded answers of the service ────┘

The framework's own generator is off: its unions have no discriminator, and it does not describe Sash's errors.
"""

from sash.api.openapi.document import document

__all__ = ["document"]

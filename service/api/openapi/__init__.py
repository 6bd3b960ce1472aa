"""The OpenAPI 3.1 document, built from the routes, the Structs and the problems.

::

    handlers ──── paths, operation ids, descriptions ───┐
    operations ── tags, bodies, answers, conditions ────┼─ document() ─ openapi.json, GET /openapi.json, sash openapi
    components ── Structs as JSON Schema ───────────────┤
    faults ────── problem types as responses ───────────┘

The framework's own generator is off: its unions have no discriminator, and its errors are not ours.
"""

from service.api.openapi.document import document

__all__ = ["document"]

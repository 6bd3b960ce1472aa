"""For the people on call, and work beside requests.

::

    a request ───── requests ── its metrics, its log line, and lately ── GET /status
    a window ────── metrics ── left_out_metrics ── served, followups
    all workers ─── statistics ── series ── summary ── GET /stats, which the dashboard draws
    the store ───── watch ── conditions ── gauges, log events; readiness ── GET /readyz
    in background ─ indexer, embedder (recall); summarizer

Metrics are in ``registry``, spans in ``tracing``.
"""

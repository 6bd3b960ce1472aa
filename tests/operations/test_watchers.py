"""Tests that requests of monitoring are left out of the request statistics and alerts."""

from conftest import ROOT

from sash.operations.summary import Prices, summarise


def test_probes_scrapes_and_the_dashboard_are_no_requests_of_clients():
    """Probes, scrapes and dashboard requests are not counted: there are many, and they would hide failing clients."""
    watched = {
        f"sash_requests_total|{name}|200": 1000
        for name in ("live", "getMetrics", "getStats", "getStatus", "getDashboard")
    }
    flat = {
        **watched,
        "sash_requests_total|ready|503": 100,
        "sash_requests_total|appendMessages|201": 2,
        "sash_requests_total|getWindow|507": 1,
    }
    told = summarise(flat, {0: flat}, since_ms=0, at_ms=60_000, prices=lambda _: Prices())
    assert (told.requests.requests, told.requests.server_errors) == (3, 1)
    assert [(point.requests, point.server_errors) for point in told.timeline] == [(3, 1)]


def test_alerts_leave_out_the_same_probes():
    """The alert rules leave out the same operations, because each scrape would lower the share of failed requests."""
    rules = (ROOT / "deploy" / "prometheus" / "rules.yml").read_text()
    assert rules.count('operation!~"live|ready|getMetrics|getStats|getStatus|getDashboard"') == 6

"""The dashboard's money of the month: what was billed, what was cached, and what was saved."""

from pathlib import Path
from typing import Any

import httpx
from conftest import serving_alone
from rigs.browser import chromium
from test_dashboard import CARDS, agree, browsed, dollars, share


def spend(url: str) -> None:
    """Read windows of a long conversation below a price tier, with documents that are not sent again, and report bills."""
    with httpx.Client(base_url=url, timeout=60) as client:
        client.post("/conversations", json={"id": "long-1", "model": "gpt-6-sol"}).raise_for_status()
        for turn in range(10):
            documents = {"documents": [{"id": f"s-{turn}", "text": f"Talk {turn}. " * 2_000}]}
            asked = {"message": {"role": "user", "content": f"day {turn} " * 10_000}, "grounding": documents}
            said = {"message": {"role": "assistant", "content": f"hall {turn} " * 10_000}}
            query = {"model": "gpt-6-sol", "price": "auto"}
            answer = client.post("/conversations/long-1/messages", json={"messages": [asked]}, params=query)
            tokens = answer.raise_for_status().json()["window"]["tokens"]["total"]
            bill = {
                "model": "gpt-6-sol",
                "prompt_tokens": tokens,
                "window_tokens": tokens,
                "cached_tokens": tokens // 2,
            }
            client.post("/conversations/long-1/usage", json=bill).raise_for_status()
            client.post("/conversations/long-1/messages", json={"messages": [said]}).raise_for_status()


def told(figures: dict[str, Any]) -> dict[str, str]:
    """What the page should show for these figures of the service."""
    saved, cost, cache = figures["saved"], figures["cost"], figures["cache"]
    return {
        "worth": dollars(saved["documents_usd"]),
        "worth up to": dollars(saved["prompt_cache_usd"]),
        "left out by cuts": dollars(saved["cuts_usd"]),
        "below a price tier": dollars(saved["tiers_usd"]),
        "served, of billed tokens": share(cache["hit_share"]),
        "saved by reading": dollars(cache["saved_usd"]),
        "billed, where cached tokens are told": dollars(cost["billed_usd"]),
    }


@browsed
def test_the_month_has_its_money(tmp_path: Path) -> None:
    """For the last 30 days the page shows the service's money, and none of its parts is nothing."""
    with serving_alone(tmp_path) as served, chromium(tmp_path / "profile") as browser:
        spend(served.url)

        def month() -> dict[str, Any]:
            found: dict[str, Any] = httpx.get(f"{served.url}/stats").json()["month"]["all"]
            return found

        browser.open(f"{served.url}/dashboard")
        browser.wait("document.querySelector('#cards table')")
        browser.run("document.querySelector('#ranges input[value=month]').click()")
        browser.wait("document.querySelector('#verdict').innerText.includes('in the last 30 days')")

        def shown() -> dict[str, str]:
            pairs = browser.run(CARDS)["What was saved"]["pairs"]
            return {name: pairs.get(name, "") for name in told(month())}

        agree(shown, lambda: told(month()))
        figures = month()
        assert all(figures["saved"][part] > 0 for part in ("documents_usd", "cuts_usd", "tiers_usd"))
        assert figures["cost"]["billed_usd"] > 0

"""``sash doctor`` and the endpoints of summaries and embeddings: each is asked for a word."""

import re
from collections.abc import Iterator
from typing import Any, Final

from sash.settings import Settings, mask_url
from sash.store.redis.findings import Finding

_SECONDS: Final = 10.0
_ASKED: Final = [{"role": "user", "content": "Say yes."}]
_CHANGES: Final = (
    (r"status 40[13]", "give {}_KEY anew"),
    (r"status (?:400|404|422)", "correct {}_URL or {}_MODEL"),
    (r"status 429", "raise its quota"),
    (r"", "start it, or correct {}_URL"),
)
"""Words of why an endpoint does not serve, and what to do."""


def check_upstreams(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each endpoint of the settings. It costs a few tokens."""
    from sash.operations.compactor import headers_of  # noqa: PLC0415 - help needs no endpoint

    if settings.embeddings_url and settings.embeddings_model:
        body: dict[str, Any] = {"model": settings.embeddings_model, "input": ["yes"], "encoding_format": "float"}
        yield _finding("SASH_EMBEDDINGS", settings.embeddings_url, _bearer(settings.embeddings_key), body)
    kind, key, url = settings.summarizer_kind, settings.summarizer_key, settings.summarizer_url
    if url and settings.summarizer_model is None:
        yield Finding("SASH_SUMMARIZER_URL", "good", "not asked: each window's own model writes")
    elif url:
        body = {"model": settings.summarizer_model, "input" if kind == "openai" else "messages": _ASKED}
        headers = None if kind == "chat" else headers_of(kind, key)
        body |= {} if headers is None else {"max_tokens": 1}
        yield _finding("SASH_SUMMARIZER", url, headers or _bearer(key), body)


def _bearer(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _finding(name: str, url: str, headers: dict[str, str], body: dict[str, Any]) -> Finding:
    shown = mask_url(url)
    why = _why_not(url, headers, body)
    if not why:
        return Finding(f"{name}_URL", "good", f"{shown} serves {body['model']}")
    change = next(change for words, change in _CHANGES if re.match(words, why))
    return Finding(f"{name}_URL", "problem", f"{shown} does not serve: {why}", change.replace("{}", name))


def _why_not(url: str, headers: dict[str, str], body: dict[str, Any]) -> str:
    """Why the endpoint does not serve; empty where it does."""
    import httpx2  # noqa: PLC0415 - as above
    import msgspec  # noqa: PLC0415

    from sash.operations.upstream_answers import failure_of  # noqa: PLC0415

    sent = msgspec.json.encode(body)
    try:
        answer = httpx2.post(
            url, content=sent, headers={"Content-Type": "application/json", **headers}, timeout=_SECONDS
        )
    except httpx2.HTTPError as error:
        return ": ".join(filter(None, (type(error).__name__, str(error))))
    return "" if answer.status_code == 200 else failure_of(answer.status_code, answer.content, sent)

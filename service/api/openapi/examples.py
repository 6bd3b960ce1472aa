"""One conversation, told in requests and answers; a test sends the requests and compares the answers."""

from typing import Any, Final

Json = dict[str, Any]

CREATE: Final[Json] = {
    "id": "c-1",
    "owner": "user-42",
    "model": "gpt-4o-mini",
    "system": "You help visitors of a conference.",
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "find_talks",
                "description": "Talks about a topic.",
                "parameters": {"type": "object", "properties": {"topic": {"type": "string"}}},
            },
        }
    ],
    "metadata": {"channel": "web"},
}
CHANGE: Final[Json] = {"reserve": 2048, "metadata": {"channel": None, "room": "2"}}
_CALL: Final[Json] = {
    "id": "call-1",
    "type": "function",
    "function": {"name": "find_talks", "arguments": '{"topic": "gradle"}'},
}
_QUESTION: Final[Json] = {"role": "user", "content": "Is there a talk about Gradle?"}
_ASKS: Final[Json] = {"role": "assistant", "content": None, "tool_calls": [_CALL]}
_RESULT: Final[Json] = {"role": "tool", "tool_call_id": "call-1", "content": "Faster builds, 14:00"}
_DOCUMENTS: Final[Json] = {"documents": [{"id": "s-12", "text": "Faster builds. Room 2, 14:00."}]}
APPEND: Final[Json] = {
    "messages": [
        {"id": "m-1", "message": _QUESTION, "grounding": _DOCUMENTS},
        {"id": "m-2", "message": _ASKS},
        {"id": "m-3", "message": _RESULT},
    ]
}
_TIME: Final = "2026-03-01T09:30:00.000Z"
_NO_TOKENS: Final[Json] = {"o200k_base": 0, "cl100k_base": 0}
CREATED: Final[Json] = {
    **CREATE,
    "version": 1,
    "created_at": _TIME,
    "updated_at": _TIME,
    "messages": {"count": 0, "first_seq": None, "last_seq": None},
    "tokens": _NO_TOKENS,
    "expires_at": None,
    "summary": None,
}
CHANGED: Final[Json] = {**CREATED, "reserve": 2048, "metadata": {"room": "2"}, "version": 2}
CONVERSATION: Final[Json] = {
    **CHANGED,
    "version": 3,
    "messages": {"count": 3, "first_seq": 1, "last_seq": 3},
    "tokens": {"o200k_base": 47, "cl100k_base": 47},
}


def _appended(*, duplicate: bool) -> Json:
    costs = enumerate((12, 27, 8), 1)
    return {
        "conversation_id": "c-1",
        "version": 3,
        "first_seq": 1,
        "last_seq": 3,
        "messages": [
            {"seq": seq, "id": f"m-{seq}", "duplicate": duplicate, "tokens": {"o200k_base": n, "cl100k_base": n}}
            for seq, n in costs
        ],
    }


APPENDED: Final = _appended(duplicate=False)
DUPLICATE: Final = _appended(duplicate=True)
MESSAGE: Final[Json] = {
    "seq": 3,
    "id": "m-3",
    "created_at": _TIME,
    "message": _RESULT,
    "tokens": {"o200k_base": 8, "cl100k_base": 8},
    "pinned": False,
}
PAGE: Final[Json] = {
    "messages": [
        {
            "seq": 1,
            "id": "m-1",
            "created_at": _TIME,
            "message": _QUESTION,
            "tokens": {"o200k_base": 12, "cl100k_base": 12},
            "pinned": False,
            "grounding": _DOCUMENTS,
            "grounding_tokens": {"o200k_base": 15, "cl100k_base": 15},
        },
        {
            "seq": 2,
            "id": "m-2",
            "created_at": _TIME,
            "message": _ASKS,
            "tokens": {"o200k_base": 27, "cl100k_base": 27},
            "pinned": False,
        },
    ],
    "next_cursor": "YTM6bkIzcFhKdzBtMnZTZFk2cQ",
}
SUMMARY: Final[Json] = {"text": "A visitor asked for talks about Gradle.", "through_seq": 1}
SUMMARIZED: Final[Json] = {
    **CONVERSATION,
    "version": 4,
    "summary": {**SUMMARY, "tokens": {"o200k_base": 20, "cl100k_base": 20}},
}
REWIND: Final[Json] = {"to_seq": 1}
REWOUND: Final[Json] = {
    **SUMMARIZED,
    "version": 5,
    "messages": {"count": 1, "first_seq": 1, "last_seq": 1},
    "tokens": {"o200k_base": 12, "cl100k_base": 12},
}
FORK: Final[Json] = {"id": "c-2", "at_seq": 1}
FORKED: Final[Json] = {**REWOUND, "id": "c-2", "version": 1}
IMPORT: Final = (
    '{"id": "c-3", "owner": "user-43", "model": "gpt-4o-mini"}\n'
    '{"id": "m-1", "message": {"role": "user", "content": "Is there a talk about Gradle?"}}\n'
)
IMPORTED: Final[Json] = {
    "id": "c-3",
    "owner": "user-43",
    "model": "gpt-4o-mini",
    "version": 1,
    "created_at": _TIME,
    "updated_at": _TIME,
    "messages": {"count": 1, "first_seq": 1, "last_seq": 1},
    "tokens": {"o200k_base": 12, "cl100k_base": 12},
    "expires_at": None,
    "summary": None,
}
LISTED: Final[Json] = {"conversations": [IMPORTED], "next_cursor": None}
USAGE: Final[Json] = {"model": "gpt-4o-mini", "prompt_tokens": 109, "window_tokens": 109}
REPORTED: Final[Json] = {
    "model": "gpt-4o-mini",
    "error": 0,
    "calibration": {"n": 1, "mean_error": 0.0, "worst_error": 0, "correction": 1.0},
}
_SYSTEM: Final[Json] = {"role": "system", "content": "You help visitors of a conference."}
_GROUNDED: Final[Json] = {
    "role": "user",
    "content": "Is there a talk about Gradle?\n\nSources:\nFaster builds. Room 2, 14:00.",
}
WINDOW: Final[Json] = {
    "conversation_id": "c-1",
    "version": 3,
    "model": "gpt-4o-mini",
    "encoding": "o200k_base",
    "exact": True,
    "context_window": 128000,
    "max_input_tokens": 128000,
    "reserve": 2048,
    "budget": 125952,
    "format": "openai",
    "tokens": {
        "total": 109,
        "priming": 3,
        "system": 11,
        "few_shots": 0,
        "tools": 33,
        "summary": 0,
        "messages": 47,
        "grounding": 15,
    },
    "kept": {"messages": 3, "first_seq": 1, "last_seq": 3},
    "dropped": {"messages": 0, "tokens": 0, "duplicates": 0, "grounding_messages": 0, "grounding_tokens": 0},
    "grounding": {"documents": 1, "documents_kept": 1, "truncated": False},
    "stop_reason": "complete",
    "summary_used": False,
    "note": 0,
    "request": {"messages": [_SYSTEM, _GROUNDED, _ASKS, _RESULT], "tools": CREATE["tools"]},
}
BUILD: Final[Json] = {
    "model": "gpt-4o-mini",
    "system": "You help visitors of a conference.",
    "messages": [{"message": _QUESTION}],
}
COUNT: Final[Json] = {"model": "gpt-4o-mini", "messages": [_QUESTION], "text": "Is there a talk about Gradle?"}
BUILT: Final[Json] = {
    **WINDOW,
    "conversation_id": None,
    "version": None,
    "reserve": 1024,
    "budget": 126976,
    "tokens": {**WINDOW["tokens"], "total": 26, "tools": 0, "messages": 12, "grounding": 0},
    "kept": {"messages": 1, "first_seq": 1, "last_seq": 1},
    "grounding": {"documents": 0, "documents_kept": 0, "truncated": False},
    "request": {"messages": [_SYSTEM, _QUESTION]},
}
COUNTED: Final[Json] = {
    "model": "gpt-4o-mini",
    "encoding": "o200k_base",
    "exact": True,
    "tokens": 15,
    "priming": 3,
    "tools": 0,
    "messages": [12],
    "text": 8,
}
MODEL: Final[Json] = {
    "id": "gpt-4o-mini",
    "provider": "openai",
    "encoding": "o200k_base",
    "exact": True,
    "context_window": 128000,
    "max_input_tokens": 128000,
    "max_output_tokens": 16384,
    "margin": 1.0,
    "calibration": None,
}
MODELS: Final[Json] = {"models": [MODEL]}
EXPORT: Final = (
    '{"id":"c-3","version":1,"created_at":"2026-03-01T09:30:00.000Z","updated_at":"2026-03-01T09:30:00.000Z",'
    '"messages":{"count":1,"first_seq":1,"last_seq":1},"tokens":{"o200k_base":12,"cl100k_base":12},"expires_at":null,'
    '"summary":null,"owner":"user-43","model":"gpt-4o-mini"}\n'
    '{"seq":1,"id":"m-1","created_at":"2026-03-01T09:30:00.000Z",'
    '"message":{"role":"user","content":"Is there a talk about Gradle?"},'
    '"tokens":{"o200k_base":12,"cl100k_base":12},"pinned":false,"digest":"6f1c0f2a6a0c4f7f8f7f0a3f3d6b2c11"}\n'
)
_QUANTILES: Final[Json] = {"p50": 4.0, "p95": 9.0}
_REUSE: Final[Json] = {"windows": 10, "same_beginning": 9, "tokens": 9130, "reused_tokens": 8217, "share": 0.9}
_WINDOWS: Final[Json] = {
    "windows": 40,
    "does_not_fit": 1,
    "stop_reasons": {"complete": 30, "budget": 10, "limit": 0, "summary": 0},
    "milliseconds": {"p50": 0.4, "p95": 0.9},
    "tokens": {"p50": 913.0, "p95": 3650.0},
    "fill": {"p50": 0.125, "p95": 0.475, "histogram": [9, 8, 7, 6, 3, 2, 2, 1, 1, 1, *[0] * 10]},
    "kept_messages": 280,
    "dropped_messages": 60,
    "dropped_tokens": 2400,
    "grounding_tokens_saved": 35900,
    "grounding_tokens_trimmed": 1200,
    "grounding_truncations": 4,
    "stable": _REUSE,
    "sliding": {"windows": 0, "same_beginning": 0, "tokens": 0, "reused_tokens": 0, "share": None},
    "prediction": {
        "reports": 20,
        "under": 0,
        "exact": 20,
        "over": 0,
        "under_tokens": 0,
        "over_tokens": 0,
        "billed_tokens": 18260,
        "mean_error_tokens": 0.0,
        "mean_error_share": 0.0,
    },
    "saved": {"documents_usd": 0.005385, "prompt_cache_usd": 0.000616},
}
_RANGE: Final[Json] = {
    "since": "2026-03-01T08:30:00Z",
    "seconds": 3600,
    "requests": {
        "requests": 120,
        "client_errors": 2,
        "server_errors": 0,
        "append_milliseconds": _QUANTILES,
        "window_milliseconds": _QUANTILES,
    },
    "all": _WINDOWS,
    "models": [{**_WINDOWS, "model": "gpt-4o-mini", "usd_per_million": {"input": 0.15, "cached_input": 0.075}}],
    "timeline": [
        {
            "at": "2026-03-01T09:29:00Z",
            "windows": 40,
            "requests": 120,
            "server_errors": 0,
            "window_p95_milliseconds": 9.0,
        }
    ],
}
STATS: Final[Json] = {
    "at": "2026-03-01T09:30:00Z",
    "flush_seconds": 5.0,
    "hour": _RANGE,
    "day": {**_RANGE, "since": "2026-02-28T09:00:00Z", "seconds": 88200},
    "start": {**_RANGE, "timeline": []},
}
METRICS: Final = """# HELP sash_requests_total Requests answered, by operation and class of status.
# TYPE sash_requests_total counter
sash_requests_total{operation="getWindow",status="2xx"} 40.0
"""
PAGE_OF_HTML: Final = "<!doctype html><title>Sash</title>"
DOCUMENT: Final[Json] = {"openapi": "3.1.0", "info": {"title": "Sash", "version": "0.1.0"}, "paths": {}}

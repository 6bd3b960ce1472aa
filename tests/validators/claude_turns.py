"""Turns as Anthropic's Messages write them."""

from validators.chat_turns import result as chat_result
from validators.logs import GIF, MARKS, NAMES, PDF, PIXEL, SIGNATURES, Call, Group, Log, Object

IMAGE: Object = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
UNTAKEN: tuple[Object, ...] = (
    {"type": "base64", "media_type": "image/bmp", "data": "Qk0AAAAA"},
    {"type": "base64", "media_type": "image/png", "data": ""},
    {"type": "url", "url": ""},
)
MEDIA: tuple[Object, ...] = (
    IMAGE,
    {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/jpg", "data": PIXEL}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": GIF}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
    *({"type": "image", "source": each} for each in UNTAKEN),
    {"type": "document", "title": "a.txt", "source": {"type": "base64", "media_type": "text/plain", "data": "SGkh"}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/zip", "data": "AAAA"}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/octet-stream", "data": PDF}},
    {"type": "document", "title": "", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
    {
        "type": "document",
        "title": "A paper " * 80,
        "context": "",
        "source": {"type": "content", "content": [{"type": "text", "text": "words", **MARKS[-1]}]},
    },
)
CITED: Object = {
    "type": "char_location",
    "cited_text": "w",
    "document_index": 0,
    "start_char_index": 0,
    "end_char_index": 1,
}
CITATIONS: tuple[Object, ...] = (
    {},
    {},
    {"citations": [{**CITED, "document_title": ""}]},
    {"citations": [{**CITED, "document_title": "A paper " * 40}]},
)


def _text(log: Log) -> Object:
    return {"type": "text", "text": log.text(), **log.pick(MARKS), **log.pick(CITATIONS)}


def _texts(log: Log) -> list[Object]:
    return [_text(log) for _ in range(log.number(2))]


def _thought(log: Log) -> Object:
    sealed = {"type": "redacted_thinking", "data": log.pick(SIGNATURES)}
    return log.pick(({"type": "thinking", "thinking": log.thought(), "signature": log.pick(SIGNATURES)}, sealed))


def user(log: Log) -> None:
    """Ask, with a text or with blocks."""
    image = {**log.pick(MEDIA), **log.pick(MARKS)}
    content = [*_texts(log), *log.maybe(image)] if log.number(2) else log.text()
    log.add("anthropic", {"role": "user", "content": content})


def reply(log: Log) -> None:
    """Reply, with thoughts anywhere."""
    content = [log.pick((_text, _thought))(log) for _ in range(log.number(4))] if log.number(2) else log.text()
    log.add("anthropic", {"role": "assistant", "content": content})


def note(log: Log) -> None:
    """Instruct, anywhere."""
    log.add("anthropic", {"role": "system", "content": _texts(log) or log.text()})


def hosted(log: Log) -> None:
    """Search the web, or run code, as Anthropic does it; half of it may be missing."""
    identity = log.pick(("srvtoolu_1", log.word("srvtoolu_")))
    page = {
        "type": "web_search_result",
        "url": f"https://x.test/{log.word()}",
        "title": f"A page {log.word()}",
        "encrypted_content": "c2Vh",
    }
    failed = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    ran = {
        "type": "code_execution_result",
        "stdout": f"out {log.word()}",
        "stderr": "",
        "return_code": 0,
        "content": [],
    }
    name, given, found = log.pick(
        (
            ("web_search", {"query": f"talks {log.word()}"}, [page]),
            ("web_search", {"query": "talks"}, []),
            ("web_search", {"query": "talks"}, failed),
            ("web_search", log.pick(("", '{"query": "talks"}', None)), [page]),
            ("code_execution", {"code": f"print('{log.word()}')"}, ran),
        )
    )
    call = {"type": "server_tool_use", "id": identity, "name": name, "input": given}
    answer = {"type": f"{name}_tool_result", "tool_use_id": identity, "content": found}
    kept = log.pick(([call, answer], [call, answer], [call], [answer]))
    log.add("anthropic", {"role": "assistant", "content": [*log.maybe(_text(log)), *kept, *log.maybe(_text(log))]})


def _result(log: Log, identity: str) -> Object:
    content = log.pick((log.text(), None, "", " ", [], [_text(log), _text(log)], [_text(log), log.pick(MEDIA)]))
    failed = log.pick(({}, {}, {"is_error": True}, {"is_error": None}))
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **failed, **log.pick(MARKS)}


def result(log: Log, identity: str, name: str) -> Group:
    """Return a user's message with a result, and perhaps words around it."""
    del name
    content = [*log.maybe(_text(log)), _result(log, identity), *log.maybe(_text(log))]
    return "anthropic", [{"role": "user", "content": content}]


def calls(log: Log) -> None:
    """Call tools. All results may come in one message, as the API wants them."""
    kinds = (result, result, chat_result)
    made = [Call(log.identity(), log.pick(NAMES), log.pick(kinds)) for _ in range(1 + log.number(2))]
    uses = [
        {"type": "tool_use", "id": each.identity, "name": each.name, "input": {"day": log.word()}, **log.pick(MARKS)}
        for each in made
    ]
    asked = {"role": "assistant", "content": [*log.maybe(_thought(log)), *log.maybe(_text(log)), *uses]}
    if log.number(1):
        log.add("anthropic", asked)
        log.called(made)
        return
    log.calls += made
    results = [_result(log, each.identity) for each in made]
    log.add("anthropic", asked, {"role": "user", "content": [*log.maybe(_text(log)), *results, *log.maybe(_text(log))]})


def compaction(log: Log) -> None:
    """Compact the conversation, perhaps within a reply, or fail to."""
    words = f"Summary {log.word()}"
    signed = {"encrypted_content": "c2Vh", "signature": "EqQB", "tool_changes": []}
    block = {
        "type": "compaction",
        "content": log.pick((words, words, words, None, "")),
        **log.pick(({}, signed, *MARKS)),
    }
    log.add("anthropic", {"role": "assistant", "content": [*log.maybe(_text(log)), block, *log.maybe(_text(log))]})


TURNS = (user, user, reply, reply, calls, calls, hosted, note, compaction)

"""Turns as Bedrock's Converse writes them."""

from validators.logs import NAMES, PDF, PIXEL, SIGNATURES, Call, Group, Log, Object

IMAGE: Object = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
IMAGES: tuple[Object, ...] = (
    IMAGE,
    {"image": {"format": "jpeg", "source": {"bytes": PIXEL}}},
    *({"image": {"format": form, "source": {"bytes": data}}} for form, data in (("png", ""), ("bmp", "Qk0AAAAA"))),
)
_S3: Object = {"s3Location": {"uri": "s3://bucket/a.pdf"}}
POINTS: tuple[Object, ...] = (
    {"cachePoint": {"type": "default"}},
    {"cachePoint": {"type": "default", "ttl": "1h"}},
)


def _text(log: Log) -> Object:
    return {"text": log.text()}


def _document(log: Log) -> Object:
    source = log.pick(({"bytes": PDF}, {"text": log.text()}, {"content": [_text(log)]}, _S3))
    name = log.pick(("report", "report", "a  b.c", "보고서", "a [1] (b)", "x" * 199))
    return {"document": {"format": "pdf" if "bytes" in source else "txt", "name": name, "source": source}}


def _medium(log: Log) -> Object:
    video: Object = {"video": {"format": "mp4", "source": {"bytes": "AAAA"}}}
    return log.pick((lambda: log.pick(IMAGES), lambda: _document(log), lambda: _document(log), lambda: video))()


def _point(log: Log) -> list[Object]:
    return log.maybe(log.pick(POINTS)) if not log.number(2) else []


def _thought(log: Log) -> Object:
    text = {
        "text": log.thought() or "hm",
        **log.pick(tuple({"signature": each} if each else {} for each in SIGNATURES)),
    }
    return {"reasoningContent": log.pick(({"reasoningText": text}, {"redactedContent": "c2VhbGVk"}))}


def user(log: Log) -> None:
    """Ask, with texts and media, with nothing, or with cache points anywhere."""
    content = [_text(log) for _ in range(log.number(2))]
    log.add("converse", {"role": "user", "content": [*content, *log.maybe(_medium(log)), *_point(log)]})


def _cited(log: Log) -> Object:
    return {"citationsContent": {"content": [_text(log)], "citations": [{"title": "A page"}]}}


def reply(log: Log) -> None:
    """Reply, with thoughts, citations and pictures anywhere."""
    kinds = (_text, _text, _thought, _thought, _cited, lambda _: log.pick(IMAGES))
    content = [log.pick(kinds)(log) for _ in range(log.number(4))]
    log.add("converse", {"role": "assistant", "content": [*content, *_point(log)]})


def note(log: Log) -> None:
    """Instruct, anywhere."""
    log.add("converse", {"role": "system", "content": [_text(log), *_point(log)]})


def result(log: Log, identity: str, name: str) -> Group:
    """Return a call's result: texts, JSON, media, or nothing."""
    del name
    content = log.pick(
        (
            *(
                [_text(log)],
                [{"json": {"day": log.word(), "n": 1}}],
                [{"json": log.pick(([1, 2], "three", None))}],
                [],
                [{"text": " "}],
                [_text(log), log.pick(IMAGES)],
            ),
            *([_text(log), _text(log)], [_text(log), _document(log)]),
        )
    )
    status = log.pick(({}, {"status": "success"}, {"status": "error"}))
    answer = {"toolResult": {"toolUseId": identity, "content": content, **status}}
    beside = [_text(log)] if not log.number(5) else []
    return "converse", [{"role": "user", "content": log.pick(([*beside, answer], [answer, *beside]))}]


def calls(log: Log) -> None:
    """Call tools, with a thought and a text before, or without."""
    made = [Call(log.identity(), log.pick(NAMES), result) for _ in range(1 + log.number(2))]
    uses = [{"toolUse": {"toolUseId": each.identity, "name": each.name, "input": {"day": log.word()}}} for each in made]
    content = [*log.maybe(_thought(log)), *log.maybe(_text(log)), *uses]
    log.add("converse", {"role": "assistant", "content": content})
    log.called(made)


TURNS = (user, user, reply, reply, calls, calls, note)

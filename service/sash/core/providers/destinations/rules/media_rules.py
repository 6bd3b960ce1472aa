"""Rules of pictures, sounds, videos and files."""

from collections.abc import Iterator, Mapping
from typing import Final

from sash.core.providers.destinations.rules.rule import Broken, Judge, Object, Rule, blocks_of, in_chat, shown
from sash.core.providers.destinations.sent_media import SentKind, media_in

_PIXEL: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK/"
    "gAAAABJRU5ErkJggg=="
)


def _without(kind: SentKind) -> Judge:
    """Return the judge that refuses media of a kind."""

    def judge(request: Object, _messages: list[Object], _value: str) -> Iterator[str]:
        yield from (place for found, place in media_in(request) if found == kind)

    return judge


def _links(_request: Object, messages: list[Object], _value: str) -> Iterator[str]:
    for index, message in enumerate(messages):
        for number, part in enumerate(blocks_of(message)):
            given = part.get("image_url")
            url = given.get("url") if isinstance(given, dict) else given
            if isinstance(url, str) and not url.startswith("data:"):
                yield f"#/messages/{index}/content/{number}"


def _file_names(_request: Object, messages: list[Object], _value: str) -> Iterator[str]:
    names = set[str]()
    for index, message in enumerate(messages):
        blocks = blocks_of(message)
        files = [each["document"] for each in blocks if "document" in each]
        if files and not any("text" in each for each in blocks):
            yield f"#/messages/{index}/content"
        for name in (str(each.get("name") or "").lower() for each in files):
            if not name or name in names:
                yield f"#/messages/{index}/content"
            names.add(name)


_PARTS: Final[Mapping[SentKind, Object]] = {
    "files": {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}},
    "pictures": {"type": "image_url", "image_url": {"url": _PIXEL}},
    "sounds": {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    "videos": {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
}
_FILES: Final = ", such as PDFs"
_ALONE: Final = Broken(
    "converse",
    {"messages": [{"role": "user", "content": [{"document": {"format": "pdf", "source": {"bytes": "JVBERi0xLjQK"}}}]}]},
    {"messages": [{"role": "user", "content": [_PARTS["files"]]}]},
)
MEDIA: Final = (
    Rule(
        kind="file_names",
        values={"own": "each file has a name of its own, and stands beside a text"},
        judge=_file_names,
        broken=(_ALONE,),
    ),
    *(
        Rule(
            kind=kind,
            values={"refused": f"no {kind}{_FILES if kind == 'files' else ''}"},
            judge=_without(kind),
            is_of_requests=True,
            broken=(in_chat(shown(part)),),
        )
        for kind, part in _PARTS.items()
    ),
    Rule(
        kind="links",
        values={"refused": "no pictures by their addresses, only with their bytes"},
        judge=_links,
        broken=(in_chat(shown({"type": "image_url", "image_url": {"url": "https://x.test/a.png"}})),),
    ),
)

"""What a message encloses beside its text: pictures, files and sounds; and the message with lines in place of some.

Enclosures have an order: first the parts of the chat message's content, then those that only the provider's own message has,
such as a picture that the model made, and last those in its reasoning. ``enclosed`` lists them, and ``with_lines`` replaces
them by their places in it.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from sash.core.chat.file_links import as_file, link_of
from sash.core.providers import PROVIDERS
from sash.core.providers.form.provider import Provider
from sash.core.providers.messages.hosted import on_a_line
from sash.core.providers.messages.members import has_foreign
from sash.core.providers.messages.pieces import Object
from sash.core.providers.messages.sharing import restore
from sash.core.providers.reading.native import read_again
from sash.core.providers.reading.own_parts import is_reasoning
from sash.core.providers.writing.media_types import VIDEO, as_picture, guess_type, is_video, medium_type, typed

Kind = Literal["image", "file", "audio", "reply"]
"""What an enclosure is. A ``reply`` is the sound of a spoken reply, which is never sent back."""
MEDIA_TYPE: Final = re.compile(r"[a-z]+/[a-zA-Z0-9.+-]+")
_TEXTS: Final = frozenset({"text", "refusal"})
_BASE64: Final = ";base64,"
_REMOVED: Final[Object] = {}
_LONGEST_ADDRESS: Final = 2000
_LONGEST_NAME: Final = 60
"""Characters of a file's name that are told."""


class Enclosure(NamedTuple):
    """One picture, file or sound. ``data`` is a data URL, base64, or an address; empty if it is kept elsewhere.

    ``part`` is the part of the content, or the provider's own. ``form`` is the only form that sends it; empty if others do.
    """

    kind: Kind
    media_type: str
    data: str
    part: Object
    form: str = ""
    in_reasoning: bool = False
    name: str = ""

    @property
    def is_linked(self) -> bool:
        """Whether the message has only an address of it, or a name."""
        return not self.data or "://" in self.data[:40]


def enclosed(message: Mapping[str, Any], own: Sequence[Object] | None = None) -> list[Enclosure]:
    """Return what a stored message encloses, in order. ``own`` are the provider's messages in it, if they are known."""
    found = _in_content(message)
    if isinstance(audio := message.get("audio"), dict) and isinstance(audio.get("data"), str):
        found.append(Enclosure("reply", "", audio["data"], audio))
    if "native" in message and not has_foreign(message):
        provider = PROVIDERS[message["native"]["format"]]
        visit = _Visit(provider, found)
        visit.messages(restore(message) if own is None else own)
        found += [_of_block(block, provider) for block in (*visit.alone, *visit.in_reasoning)]
    return found


def with_lines(message: Object, lines: Mapping[int, str]) -> Object:
    """Return the stored message with these lines of text in place of enclosures, by their places in ``enclosed``.

    Its own message has them too. It is left out if it has no place for a text where a picture was.
    """
    content, native = message.get("content"), message.get("native")
    chat: Object = {name: value for name, value in message.items() if name != "native"}
    is_result = message["role"] == "tool"
    if isinstance(content, list):
        lines = _behind_texts(content, lines)
        chat["content"] = _content(content, lines, is_result=is_result)
    own = _own(message, chat, lines, is_result=is_result) if native and not has_foreign(message) else None
    return chat if own is None else read_again(message, own)


def _in_content(message: Mapping[str, Any]) -> list[Enclosure]:
    content = message.get("content")
    return [_of_part(part) for part in content if _is_medium(part)] if isinstance(content, list) else []


def _is_medium(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") not in _TEXTS


def _of_part(part: Object) -> Enclosure:
    match as_picture(part):
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return Enclosure("image", _type_of(url), url, part)
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
            return Enclosure("audio", f"audio/{form}", data, part)
    file = as_file(part).get("file")
    held = file if isinstance(file, dict) else {}
    given = held.get("file_data") or held.get("file_id") or link_of(part)
    data = given if isinstance(given, str) else ""
    name = str(held.get("filename") or "")[:_LONGEST_NAME]
    is_linked_video = part.get("type") == "video_url" or is_video(data[:_LONGEST_ADDRESS])
    return Enclosure("file", _file_type(data, name) or (VIDEO if is_linked_video else ""), data, part, name=name)


def _file_type(data: str, name: str) -> str:
    """The media type of a file by its bytes, by what is told, or by its name; empty for one that is kept elsewhere."""
    told, begins = typed(data)
    if told is None:
        if "://" in data[:40] or not (guessed := guess_type(name)):
            return ""
        told, begins = guessed, data
    return medium_type(told, begins)


def _of_block(block: Object, provider: Provider) -> Enclosure:
    """An enclosure that only the provider's own message has."""
    texts = list(_strings(block))
    data = max(texts, key=len, default="")
    media_type = next((text for text in texts if MEDIA_TYPE.fullmatch(text)), "") or _type_of(data)
    is_image = provider.kinds.images.has(block) or block.get("type") in provider.kinds.made
    is_image = is_image or media_type.startswith("image/")
    kind: Kind = "image" if is_image else "audio" if media_type.startswith("audio/") else "file"
    return Enclosure(kind, media_type, data, block, provider.name, is_reasoning(block, provider))


def _type_of(url: str) -> str:
    """The media type of a data URL; empty for another text."""
    head = url[:100].partition(",")[0]
    return head[5:].partition(";")[0].lower() if head[:5].lower() == "data:" else ""


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)


# ---- lines in their place


def _behind_texts(content: Sequence[Object], lines: Mapping[int, str]) -> Mapping[int, str]:
    """The lines as they stand behind the content's texts, in the chat form and in the provider's own."""
    found, place, before = dict(lines), 0, None
    for part in content:
        if not _is_medium(part):
            before = part.get("text")
            continue
        if place in found:
            found[place] = on_a_line(found[place], before)
        before, place = found.get(place), place + 1
    return found


def _content(content: Sequence[Object], lines: Mapping[int, str], *, is_result: bool) -> Any:
    """The content with lines in place of parts. A result's texts become one, before its other parts."""
    told: list[Object] = []
    place = 0
    for part in content:
        line = lines.get(place) if _is_medium(part) else None
        place += _is_medium(part)
        told.append(part if line is None else {"type": "text", "text": line})
    if not is_result:
        return told
    text = "".join(part.get("text") or "" for part in told if not _is_medium(part))
    others = [part for part in told if _is_medium(part)]
    return [{"type": "text", "text": text}, *others] if others else text


def _own(message: Object, chat: Object, lines: Mapping[int, str], *, is_result: bool) -> list[Object] | None:
    """The provider's own messages with these lines; None if they have no place for one."""
    provider, found, given = PROVIDERS[message["native"]["format"]], _in_content(message), restore(message)
    listed = _Visit(provider, found)
    listed.messages(given)
    first = len(found) + ("audio" in message)  # a spoken reply has no own message
    alone = {id(block): lines.get(place) for place, block in enumerate((*listed.alone, *listed.in_reasoning), first)}

    told: set[str] = set()
    reasoning = provider.kinds.reasoning.members

    def in_place(place: int | None, block: Object) -> Object | None:
        line = alone[id(block)] if place is None else lines.get(place)
        if line is None:
            return None
        told.add(line)
        if block.get("type") in provider.kinds.made:
            return {"role": "assistant", provider.shape.parts: line}
        if is_result and not is_reasoning(block, provider):
            return _REMOVED
        stays = {name: block[name] for name in block if name == "cache_control" or name in reasoning}
        return {**provider.shape.text_part(line), **stays}

    visit = _Visit(provider, found, in_place)
    own = visit.messages(given)
    if not visit.is_placed or told != {*lines.values()}:  # not in a list, or no part of its own
        return None
    if not is_result:
        return own
    said = chat["content"]
    text = said if isinstance(said, str) else said[0]["text"]
    result = provider.with_result_text(own[0], text, lambda part: not _holds_words(part))
    return None if result is None else [result]


class _Visit:
    """Visits the pictures and files in a provider's own messages, in order, and can replace them.

    ``in_place`` returns what stands in a medium's place: another part, ``_REMOVED``, or None if it stays. It gets the place
    of the content's part that is the same medium, None for one that no part is. ``alone`` are these, but those in reasoning.
    ``is_placed``: each replaced medium stood in a list, so that a text can be in its place.
    """

    def __init__(
        self,
        provider: Provider,
        found: Sequence[Enclosure],
        in_place: Callable[[int | None, Object], Object | None] = lambda _place, _block: None,
    ) -> None:
        self._provider = provider
        self._in_place = in_place
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, each in enumerate(found):
            self._places[_payload(each.data)].append(place)
        self.alone: list[Object] = []
        self.in_reasoning: list[Object] = []
        self.is_placed = True

    def messages(self, own: Sequence[Object]) -> list[Object]:
        """The messages with replaced media."""
        kept, made_of = [], self._provider.kinds.made
        for item in own:
            is_made = isinstance(item.get(made_of.get(str(item.get("type")), "")), str)
            made = self._replaced(item) if is_made else None
            kept.append(made or (item if is_made else self._within(item)))
        return kept

    def _within(self, value: Any) -> Any:
        match value:
            case dict() if self._is_medium(value):  # not in a list
                if self._replaced(value) is not None:
                    self.is_placed = False
                return value
            case dict():
                changed = {name: self._within(each) for name, each in value.items()}
                return {
                    name: each for name, each in changed.items() if each or not value[name]
                }  # no list is left empty
            case list():
                return [each for part in value if (each := self._part(part)) is not _REMOVED]
        return value

    def _part(self, part: Any) -> Any:
        is_medium = isinstance(part, dict) and self._is_medium(part)
        if is_reasoning(part, self._provider):
            made = self._apart(self.in_reasoning, part) if is_medium else None
        elif not is_medium:
            return self._within(part)
        else:
            made = self._replaced(part)
        return part if made is None else made

    def _is_medium(self, block: Object) -> bool:
        """Whether a part is a picture, a file or a sound, and not a document of texts or of parts."""
        return self._provider.kinds.is_medium(block) and not _holds_words(block)

    def _replaced(self, block: Object) -> Object | None:
        for text in sorted(_strings(block), key=len, reverse=True):  # short bytes are shorter than their type
            if places := self._places.get(_payload(text)):
                return self._in_place(places.pop(0), block)
        return self._apart(self.alone, block)

    def _apart(self, listed: list[Object], block: Object) -> Object | None:
        listed.append(block)
        return self._in_place(None, block)


def is_picture_or_file(part: Any) -> bool:
    """Whether a part of a chat message's content, or a provider's own, stays beside the text of a result that is cut.

    A file of text does not: its words are among those that are cut.
    """
    if not isinstance(part, dict) or part.get("type") in _TEXTS or _holds_words(part):
        return False
    return not any(_is_of_text(text) for text in _strings(part))


def _is_of_text(text: str) -> bool:
    """Whether a string is a text file as a data URL, or the media type of one."""
    return (_type_of(text) or (text if MEDIA_TYPE.fullmatch(text) else "")).startswith("text/")


def _holds_words(block: Object) -> bool:
    """Whether a part is a document of texts or of parts, which are in the text of the chat message."""
    holders = (block, *(value for value in block.values() if isinstance(value, dict)))
    return any(isinstance(source := each.get("source"), dict) and is_of_words(source) for each in holders)


def is_of_words(source: Mapping[str, Any]) -> bool:
    """Whether a document's source has its words, and not bytes or a link."""
    return source.get("type") == "text" or not source.keys().isdisjoint({"text", "content"})


def _payload(data: str) -> str:
    """The base64 of a data URL in the usual alphabet; another text as it is."""
    text = data.partition(_BASE64)[2] if data[:5] == "data:" else data
    return text.replace("-", "+").replace("_", "/") if "://" not in text[:40] else text

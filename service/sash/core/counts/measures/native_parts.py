"""Measure the parts of a provider's message that its chat form does not hold.

Reasoning is measured apart from all other parts, because a window may leave them out, and families bill them differently.
They come as text, or sealed (signatures, encrypted content). Every part that is sent has a cost. Bills show how many
characters of a seal are billed::

    Claude, beside its thinking                       none: 9 bills; the words are billed
    Gemini, on a text or on a hosted tool's parts     none: 6 bills; of 3.5 all on a text, 95 to 134 tokens: 3 bills
    Gemini, on a call, by how the signature begins:
      E, from the Gemini API                          all: 92 bills, 0.21 tokens a character in long ones
      AY, from Vertex                                 half: 3 bills
      C, one piece                                    none: 58 bills, mostly Vertex and Gemini 2.5; two were billed
      C, several pieces, as a streamed reply has      all: 17 bills, 0.17 tokens a character
    OpenAI, in a reasoning item, beginning gAAAAA     a token for 5 without the first 900, and 3: 9 bills, 7 to 24 % less
    OpenAI, kept by the server (no encrypted content) as many as its reply reported: 217 to 361 in 6 bills

A signature with another beginning counts like one with E. Of both, the first 100 characters are free. The summary in a
reasoning item of OpenAI's is free: 6 bills.
"""

import base64
import binascii
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.counts.measures.attachments import DETAILS, FILE_CHARACTERS, UPLOADED_FILE, Image, image_size
from sash.core.counts.text import Pair, mix_of, text_tokens
from sash.core.counts.text.unicode_scripts import Mix
from sash.core.providers import PROVIDERS
from sash.core.providers.form.lost_members import STRUCTURE, loses_members
from sash.core.providers.form.part_kinds import NO_KINDS, PartKinds
from sash.core.providers.form.provider import Provider
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.members import has_foreign
from sash.core.providers.messages.sharing import fill, is_reference, repeated
from sash.core.providers.reading.enclosures import MEDIA_TYPE, is_of_words
from sash.core.providers.reading.own_parts import is_reasoning, parts_of

_AROUND: Final = 100
"""Characters of a seal around its reasoning, which are not billed: 92 bills."""
_OF_OPENAI: Final = "gAAAAA"
"""How a Fernet token begins: base64 of its version and of its time's first bytes."""
_AROUND_OPENAIS: Final = 900
_ITEM: Final = 12
"""Characters for the 3 tokens around a reasoning item: a call costs 20 behind one, and 17 without."""
_REFERENCED: Final = 40
"""Tokens that are assumed for an item which only the server has: calls of 16 bills cost 21 to 29."""
_KEPT_BY_OPENAI: Final = 1_600
"""Characters that are assumed for a reasoning item whose reasoning only the server has: 400 tokens."""
_ONE_BYTE_LENGTH: Final = 0x80
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CITING: Final = 590
_NUMBERED: Final = 940
"""Tokens that a PDF costs more if it may be cited: one bill, which is not among the recordings."""
_DOCUMENT: Final = 40
"""Tokens around a document that is text: 3 bills of Claude."""
_MEDIA_WORDS: Final = frozenset({"title", "context", "filename", "displayName", "display_name"})
_BESIDE_MEDIA: Final = _MEDIA_WORDS | {"detail", "media_type", "mimeType", "mime_type", "type"}
"""Members that describe a picture or a file. A reference found in one of them is no proof that the chat message has it."""


class NativeParts(msgspec.Struct, array_like=True, frozen=True):
    """The measure of a message's member ``native``.

    ``size`` is its length in bytes, with the comma before it. ``native_reasoning`` and ``rest`` are tokens of text;
    ``reasoning_sealed`` and ``rest_sealed`` are characters that only the provider can read. ``only`` names the parts that
    cannot be sent to other providers.
    """

    format: str
    size: int
    native_reasoning: Pair = (0, 0)
    reasoning_sealed: int = 0
    rest: Pair = (0, 0)
    rest_sealed: int = 0
    images: tuple[Image, ...] = ()
    estimated: int = 0
    only: tuple[str, ...] = ()
    reasoning_images: tuple[Image, ...] = ()
    mix: Mix | None = None
    """The properties of the reasoning's text that decide its tokens in other vocabularies."""
    wrappings: int = 0
    """Message items of a Responses reply beyond those that the chat form has: each is billed as a message."""
    apart: Pair = (0, 0)
    """What the texts of these items cost in parts beyond their cost as a whole."""
    told: int = 0
    """Lines of the content that tell parts which only the provider's own form has."""
    identified: int = 0
    """Calls of a Responses reply that came with their items' ids."""
    stored: int = 0
    """Those of them whose items' status came too."""
    texts_sealed: int = 0
    """Characters of sealed reasoning on texts, which few families bill."""
    sent: int = 0
    """Bytes of the provider's messages as JSON, which its own form sends in place of the chat message."""
    lost: int = 0
    """1 if the provider's messages have members that no other form is sent, such as citations."""
    told_parts: tuple[tuple[int, int, Mix | None], ...] = ()
    """Each of these lines, as ``Extra.parts``, of a result that has other parts, too. They stay when it is cut."""

    @property
    def is_estimate(self) -> bool:
        """Whether some of the cost is a guess: all parts without a chat form, which are in no recorded bill."""
        return bool(self.only or any(self.rest) or self.reasoning_sealed or self.rest_sealed or self.estimated)


def measure_native_parts(message: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> NativeParts:
    """Return the measure of a message's member ``native``; ``own`` are the provider's messages in it."""
    native = message["native"]
    size = len(msgspec.json.encode(native)) + len(',"native":')
    if has_foreign(message):
        return NativeParts(native["format"], size)
    provider, is_result = PROVIDERS[native["format"]], message["role"] == "tool"
    reasoning, rest = _Weighed(provider, is_result=is_result), _Weighed(provider, is_result=is_result)
    thinks = message["role"] == "assistant"
    for part in parts_of(provider, native["messages"]):
        (reasoning if thinks and is_reasoning(part, provider) else rest).add(part, reasoning)
    rest.texts += repeated(reasoning.references + rest.references, message)
    wrappings, apart = _items_apart(message)
    words, others = text_tokens(reasoning.texts), text_tokens(rest.texts)
    lines = _lines(message)
    if lines and provider.replies_are_items:
        wrappings += len(lines)  # a hosted call that loses its id with the reasoning is sent as its line
    elif lines:  # they are in the text, and not sent in the provider's own form
        said = text_tokens(lines)
        others = others[0] - _surely(said[0]), others[1] - _surely(said[1])
    return NativeParts(
        format=native["format"],
        size=size,
        native_reasoning=(words[0] + reasoning.estimated, words[1] + reasoning.estimated),
        reasoning_sealed=reasoning.sealed,
        rest=others,
        rest_sealed=rest.sealed,
        images=tuple(rest.images),
        estimated=rest.estimated,
        only=tuple(native.get("only", ())),
        reasoning_images=tuple(reasoning.images),
        mix=mix_of("".join(reasoning.texts), *words) if reasoning.texts else None,
        wrappings=wrappings,
        apart=apart,
        told=len(lines),
        **_calls_with_ids(native),
        texts_sealed=reasoning.texts_sealed,
        sent=len(msgspec.json.encode(own)),
        lost=int(loses_members(message, provider)),
        told_parts=_lines_apart(message, lines) if is_result else (),
    )


def _lines_apart(message: Mapping[str, Any], lines: Sequence[str]) -> tuple[tuple[int, int, Mix | None], ...]:
    """What each of the lines costs that stand beside a result's other parts."""
    if len(lines) == (1 if isinstance(message["content"], str) else len(message["content"])):
        return ()
    return tuple((*pair, mix_of(line, *pair)) for line in lines for pair in (text_tokens([line]),))


def _surely(tokens: int) -> int:
    """Return the tokens that a line costs at least, within a text and in any vocabulary."""
    return tokens * 3 // 4


def _calls_with_ids(native: Mapping[str, Any]) -> dict[str, int]:
    provider = PROVIDERS[native["format"]]
    if not provider.replies_are_items:
        return {}
    identified = [each for each in native["messages"] if provider.is_call(each) and each.get("id")]
    return {"identified": len(identified), "stored": sum("status" in each for each in identified)}


def _lines(message: Mapping[str, Any]) -> list[str]:
    """Return the lines of the content that tell parts which the native message has."""
    content = message.get("content")
    parts = [{"text": content}] if isinstance(content, str) else content or []
    return [parts[place]["text"] for place in message["native"].get("told", ())]


def _items_apart(message: Mapping[str, Any]) -> tuple[int, Pair]:
    """Return what several message items of a Responses reply cost beside one chat message: wrappings, and tokens of text.

    A text costs more in parts than as a whole.
    """
    native, calls = message["native"], message.get("tool_calls")
    if not PROVIDERS[native["format"]].replies_are_items or message["role"] != "assistant":
        return 0, (0, 0)
    items = [
        item
        for item in native["messages"]
        if "role" in item and item.get("type", "message") == "message" and item.get("content") not in ([], None)
    ]
    # An item without text is free in 12 bills. One that stood before a call cost 4: it is taken as free too, because whether
    # calls follow is not known of a message alone.
    texts = [text for item in fill(items, message) if (text := _said(item))]
    if len(texts) < (1 if calls else 2):
        return 0, (0, 0)
    lines = _lines(message)  # they are in the text, between the items
    whole = _said(message) if lines else "".join(texts)
    parts, together = text_tokens([*texts, *lines]), text_tokens(whole)
    apart = parts[0] - together[0], parts[1] - together[1]
    return max(0, len(texts) - (1 if whole or native.get("told") or not calls else 0)), apart


def _said(item: Mapping[str, Any]) -> str:
    """Return the text of a message item."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in content or ())


class _Weighed:
    """Texts, sealed characters, images and guesses, gathered from parts.

    In a tool message the names of results cost nothing here: they are counted with the calls' (``VendorRules.names``).
    """

    def __init__(self, provider: Provider, *, is_result: bool) -> None:
        self._provider = provider
        self._kinds = provider.kinds
        self._named = provider.kinds.named_results if is_result else NO_KINDS
        self.texts: list[str] = []
        self.references: Counter[int | str] = Counter()
        self.sealed = 0
        self.texts_sealed = 0
        self.images: list[Image] = []
        self.estimated = 0

    def add(self, value: Any, reasoning: "_Weighed", key: str = "") -> None:
        """Add all that a value holds. A signature of reasoning is added to ``reasoning``, wherever it stands."""
        match value:
            case str():
                self._add_text(value, reasoning, key)
            case list():
                for each in value:
                    self.add(each, reasoning, key)
            case dict() if is_reference(value):
                self.references[value["$"]] += 1
            case dict() if self._kinds.is_medium_type(value) or self._kinds.holds_medium(key, value):
                self._add_media(value, reasoning, key)
            case {"type": "input_audio", "input_audio": dict()}:
                self.texts.append(media_line(value))  # OpenAI's items have no sound: it is sent as its line
            case {"type": str(kind)} if kind in self._kinds.stored:
                self.estimated += _REFERENCED
            case {"type": str(kind)} if isinstance(value.get(made := self._kinds.made.get(kind, "")), str):
                self._add_image(value[made])
                self.add({name: each for name, each in value.items() if name not in ("type", made)}, reasoning)
            case dict():
                self._add_members(value, reasoning, key)

    def _add_members(self, value: dict[str, Any], reasoning: "_Weighed", key: str) -> None:
        self._add_citing(value)
        kinds, provider, unread = self._kinds, self._provider, self._kinds.unread
        if kinds.stored and is_reasoning(value, provider):
            unread |= {"summary"}  # it is not sent to the model
            has_own = value.get("encrypted_content") or value.get("content")
            reasoning.sealed += _KEPT_BY_OPENAI if "id" in value and not has_own else 0
        if self._named is not NO_KINDS and (self._named.has(value) or self._named.has_member(key, value)):
            # An old client names a result by an id: 14 tokens each, 2 bills here and 48 elsewhere.
            unread |= set() if _UUID.fullmatch(str(value.get("name"))) else {"name"}
        for name, each in value.items():
            if name in kinds.seals or (name in ("signature", "encrypted_content") and is_reasoning(value, provider)):
                reasoning.sealed += billed_characters(value, name, kinds)
                if name in kinds.seals and provider.shape.text_member in value and isinstance(each, str):
                    reasoning.texts_sealed += max(0, len(each) - _AROUND)
            elif name not in STRUCTURE and name not in unread:
                self.add(each, reasoning, name)

    def _add_citing(self, value: dict[str, Any]) -> None:
        """Add the instructions to cite that Anthropic sends with a document or a search result: 6 bills.

        A PDF's words are sent as numbered pieces.
        """
        match value:
            case {"citations": {"enabled": True}, "source": {"media_type": "application/pdf"}}:
                self.estimated += _CITING + _NUMBERED
            case {"citations": {"enabled": True}}:
                self.estimated += _CITING

    def _add_text(self, text: str, reasoning: "_Weighed", key: str) -> None:
        if key in self._kinds.sealed or (key == "data" and self is reasoning):
            self.sealed += len(text)
        else:
            self.texts.append(text)

    def _add_media(self, value: dict[str, Any], reasoning: "_Weighed", key: str) -> None:
        """Add media that are sent as bytes or kept elsewhere; media that the chat form holds have their cost there."""
        source = value.get("source", value)
        inner = source if isinstance(source, dict) else {}
        self._add_citing(value)
        if is_of_words(inner):
            self.estimated += _DOCUMENT
            self.add(inner.get("content", inner.get("text", inner.get("data"))), reasoning)
        elif not any(is_reference(each) for name, each in inner.items() if name not in _BESIDE_MEDIA):
            is_image = str(value.get("type")) in self._kinds.images.types or self._kinds.images.has_member(key, value)
            self._add_bytes(value, [text for text in inner.values() if isinstance(text, str)], is_image=is_image)
        for name, each in value.items():
            if name in _MEDIA_WORDS:
                self.add(each, reasoning, name)

    def _add_bytes(self, value: dict[str, Any], strings: list[str], *, is_image: bool) -> None:
        """Add an image, with the size in its header if there is one; else a file."""
        data = max(strings, key=len, default="")
        media_type = next((text for text in strings if MEDIA_TYPE.fullmatch(text)), "")
        if is_image or media_type.startswith("image/"):
            self._add_image(data, str(value.get("detail")))
        else:
            self.estimated += max(UPLOADED_FILE, len(data) // FILE_CHARACTERS)

    def _add_image(self, data: str, detail: str = "auto") -> None:
        """Add an image: a data URL or base64, with the size that its header states; else an image of unknown size."""
        size = image_size(data if data.startswith("data:") else f"data:;base64,{data}") or (0, 0)
        self.images.append((*size, DETAILS.get(detail, 0)))


def billed_characters(part: Mapping[str, Any], name: str, kinds: PartKinds) -> int:
    """Return how many characters of the member ``name``, a seal of reasoning, are billed with its part."""
    seal = part[name]
    if not isinstance(seal, str) or (name == "signature" and part.get("thinking")):
        return 0
    if name == "encrypted_content" and seal.startswith(_OF_OPENAI):
        return max(0, (len(seal) - _AROUND_OPENAIS) * 4 // 5) + _ITEM  # the others cost a token for 4 characters
    is_on_call = kinds.sealed_calls.has(part)
    if name not in kinds.seals and not is_on_call:
        return len(seal)
    if not is_on_call:
        return 0
    if seal.startswith("AY"):
        return len(seal) // 2
    return 0 if is_of_vertex(seal) else max(0, len(seal) - _AROUND)


def is_of_vertex(seal: Any) -> bool:
    """Return whether a seal is in one piece, which is how Vertex mostly sends it.

    The first field of the Protocol Buffers message then needs a length of two bytes.
    """
    if not isinstance(seal, str) or not seal.startswith("C"):
        return False
    try:
        head = base64.urlsafe_b64decode(seal[:4].replace("+", "-").replace("/", "_"))
    except (binascii.Error, ValueError):
        return False
    return len(head) > 1 and head[1] >= _ONE_BYTE_LENGTH

"""What a provider's own parts cost: tokens of what the chat form does not say, apart from what the model thought.

Thoughts come as words or sealed (signatures, encrypted content); both are measured apart from all else, so that whoever
leaves thoughts out, or knows how a family bills them, finds their size. Nothing that is sent costs nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from service.core.images import DETAILS, Image, image_size
from service.core.native.seals import SIGNATURES, billed_characters
from service.core.native.sharing import is_reference
from service.core.scripts import Mix, mix_of
from service.core.text import count_text

Pair = tuple[int, int]

SEALED_CHARACTERS: Final = 4
"""Characters of sealed content a token: base64 of text is 5 or more, so this errs high."""
_FILE_CHARACTERS: Final = 4
_UPLOADED_FILE: Final = 2_000
_CITING: Final = 590
_DOCUMENT: Final = 40
"""Tokens around a document that is text: 3 bills of Claude's."""
_SEALED: Final = frozenset({"encrypted_content", "encrypted_index", "encrypted_stdout", "fingerprint"})
_STRUCTURE: Final = frozenset(
    {
        *("type", "role", "id", "call_id", "tool_use_id", "status", "cache_control", "caller", "logprobs", "format"),
        *("media_type", "mime_type", "mimeType", "detail", "approval_request_id", "prompt_cache_breakpoint"),
    }
)
"""Members that no model reads as text."""
_MEDIA: Final = frozenset({"image", "document", "input_image", "input_file", "computer_screenshot", "container_upload"})
_IMAGES: Final = frozenset({"image", "input_image", "computer_screenshot"})
_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[a-zA-Z0-9.+-]+")
_MEDIA_WORDS: Final = frozenset({"title", "context", "filename", "displayName", "display_name"})
_MEDIA_MEMBERS: Final = frozenset({"inlineData", "inline_data", "fileData", "file_data"})


class Beside(msgspec.Struct, array_like=True, frozen=True):
    """What a message has beside its chat form.

    ``size`` is the bytes of the member ``native`` with the comma before it. ``thoughts`` and ``rest`` are tokens of words,
    ``thoughts_sealed`` and ``rest_sealed`` characters that only the provider can read. ``only`` names the parts that no
    other provider can be sent.
    """

    format: str
    size: int
    thoughts: Pair = (0, 0)
    thoughts_sealed: int = 0
    rest: Pair = (0, 0)
    rest_sealed: int = 0
    images: tuple[Image, ...] = ()
    estimated: int = 0
    only: tuple[str, ...] = ()
    mix: Mix | None = None  # what the thoughts' tokens in other vocabularies depend on

    @property
    def is_estimate(self) -> bool:
        """Whether some of it can only be guessed."""
        return bool(self.thoughts_sealed or self.rest_sealed or self.estimated)

    def thoughts_tokens(self, column: int) -> int:
        """Tokens of what the model thought, in o200k_base (column 0) or cl100k_base (1)."""
        return self.thoughts[column] + -(-self.thoughts_sealed // SEALED_CHARACTERS)

    def rest_tokens(self, column: int) -> int:
        """Tokens of all else, without images."""
        return self.rest[column] + -(-self.rest_sealed // SEALED_CHARACTERS) + self.estimated


def measure_beside(native: Mapping[str, Any]) -> Beside:
    """The measure of a message's ``native`` member."""
    thoughts, rest = _Weighed(), _Weighed()
    for part in parts_of(native["messages"]):
        (thoughts if is_thought(part) else rest).add(part, thoughts)
    thought = thoughts.tokens()
    return Beside(
        format=native["format"],
        size=len(msgspec.json.encode(native)) + len(',"native":'),
        thoughts=thought,
        thoughts_sealed=thoughts.sealed,
        rest=rest.tokens(),
        rest_sealed=rest.sealed,
        images=tuple(rest.images),
        estimated=rest.estimated,
        only=tuple(native.get("only", ())),
        mix=mix_of("".join(thoughts.texts), thought[0]) if thoughts.texts else None,
    )


def parts_of(messages: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """The blocks, parts or items of provider's messages."""
    for message in messages:
        parts = message.get("content") if "type" not in message or message.get("type") == "message" else None
        parts = message.get("parts") if parts is None else parts
        if isinstance(parts, list):
            yield from parts
        elif parts is not None:
            yield parts
        else:
            yield message


def is_thought(part: Any) -> bool:
    """Whether a block, an item or a part holds what the model thought, and nothing else."""
    if not isinstance(part, dict):
        return False
    is_gemini = part.get("thought") is True and not part.keys() & {"functionCall", "function_call"}
    return is_gemini or part.get("type") in ("thinking", "redacted_thinking", "reasoning")


class _Weighed:
    """Texts and sealed characters, gathered from parts."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.sealed = 0
        self.images: list[Image] = []
        self.estimated = 0

    def tokens(self) -> Pair:
        return _sum(self.texts, "o200k_base"), _sum(self.texts, "cl100k_base")

    def add(self, value: Any, thoughts: "_Weighed", key: str = "") -> None:
        """Add what stands in a value; a thought's signature goes to ``thoughts``, wherever it stands."""
        match value:
            case str():
                self._add_text(value, thoughts, key)
            case list():
                for each in value:
                    self.add(each, thoughts, key)
            case dict() if is_reference(value):
                pass
            case dict() if str(value.get("type")) in _MEDIA or key in _MEDIA_MEMBERS:
                self._add_media(value, thoughts)
            case dict():
                self._add_citing(value)
                for name, each in value.items():
                    if name in SIGNATURES or name == "signature":
                        thoughts.sealed += billed_characters(value, name)
                    elif name not in _STRUCTURE:
                        self.add(each, thoughts, name)

    def _add_citing(self, value: dict[str, Any]) -> None:
        """Instructions to cite, which come with a document or a search's result of Anthropic's: 6 bills."""
        match value.get("citations"):
            case {"enabled": True}:
                self.estimated += _CITING

    def _add_text(self, text: str, thoughts: "_Weighed", key: str) -> None:
        if key in _SEALED or (key == "data" and self is thoughts):
            self.sealed += len(text)
        else:
            self.texts.append(text)

    def _add_media(self, value: dict[str, Any], thoughts: "_Weighed") -> None:
        """Price what is sent as bytes, or kept elsewhere; what the chat form holds is priced there."""
        source = value.get("source", value)
        inner = source if isinstance(source, dict) else {}
        self._add_citing(value)
        if inner.get("type") in ("content", "text"):
            self.estimated += _DOCUMENT
            self.add(inner.get("content", inner.get("data")), thoughts)
        elif not any(map(is_reference, inner.values())):
            self._add_bytes(value, [text for text in inner.values() if isinstance(text, str)])
        for name, each in value.items():
            if name not in _STRUCTURE and name in _MEDIA_WORDS:
                self.add(each, thoughts, name)

    def _add_bytes(self, value: dict[str, Any], strings: list[str]) -> None:
        """An image, at its size if its header tells; else a file."""
        data = max(strings, key=len, default="")
        media_type = next((text for text in strings if _MEDIA_TYPE.fullmatch(text)), "")
        if str(value.get("type")) in _IMAGES or media_type.startswith("image/"):
            url = data if data.startswith("data:") else f"data:{media_type};base64,{data}"
            size = image_size(url) or (0, 0)
            self.images.append((*size, DETAILS.get(str(value.get("detail")), 0)))
        else:
            self.estimated += max(_UPLOADED_FILE, len(data) // _FILE_CHARACTERS)


def _sum(texts: list[str], encoding: Any) -> int:
    return sum(count_text(text, encoding) for text in texts)

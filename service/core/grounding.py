"""Render, trim and de-duplicate documents.

Documents stand beside the question, not in it, and join it only in the window that asks it: the answer keeps what
mattered (the articles on Jetchat's sliding window say why). A template says how. Rendering works on the message's stored
JSON: text goes before and after the content's value, so the body is never decoded.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import blake2b

import msgspec

from service.core.text import Encoding, count_text, cut_text
from service.problems import BadRequest, Pointer

DEFAULT_TEMPLATE = "{content}\n\nSources:\n{documents}"
DEFAULT_SEPARATOR = "\n---\n"
_PLACEHOLDER = re.compile(r"\{(content|documents)\}")
_STEPS = 8
"""How far from the first guess a cut is corrected, in characters: merges reach over a few, not over many."""


class Template(msgspec.Struct, frozen=True):
    """A grounding template taken apart: what stands before, between and after its two places."""

    before: str
    between: str
    after: str
    content_first: bool
    separator: str
    digest: bytes

    def around(self, documents: str) -> tuple[str, str]:
        """The texts that go before and after the message's content."""
        if self.content_first:
            return self.before, self.between + documents + self.after
        return self.before + documents + self.between, self.after


@lru_cache(maxsize=1024)
def parse_template(template: str, separator: str) -> Template:
    """Raises BadRequest unless ``{content}`` and ``{documents}`` are there once each."""
    places = [match.group(1) for match in _PLACEHOLDER.finditer(template)]
    if sorted(places) != ["content", "documents"]:
        detail = "The template must hold {content} and {documents}, once each"
        raise BadRequest(f"{detail}.", errors=[Pointer("#/grounding_template", detail)])
    before, _, between, _, after = _PLACEHOLDER.split(template)
    digest = blake2b(msgspec.json.encode((template, separator)), digest_size=4).digest()
    return Template(before, between, after, places[0] == "content", separator, digest)


class Grounded(msgspec.Struct, frozen=True, kw_only=True):
    """A message's documents as far as they are sent: the texts around its content, and what they add in tokens.

    ``kept`` counts documents of which at least a character is sent, ``given`` those that were to be sent; ``cut`` says
    that the last kept one is not whole, ``keys`` name the kept ones. ``cost`` is what they add in an estimated model's
    tokens, None where those of the encoding tell.
    """

    before: str
    after: str
    kept: int
    given: int
    tokens: int
    cut: bool = False
    keys: tuple[str, ...] = ()
    cost: int | None = None

    @property
    def truncated(self) -> bool:
        """Whether documents were cut or left out."""
        return self.cut or self.kept < self.given


def added_tokens(template: Template, content: str, documents: Sequence[str], encoding: Encoding) -> int:
    """What all of the documents add to a message with this text."""
    before, after = template.around(template.separator.join(documents))
    return count_text(before + content + after, encoding) - count_text(content, encoding)


def everything(template: Template, documents: Sequence[str], tokens: int) -> Grounded:
    """All documents, whole; ``tokens`` is what they are known to add."""
    before, after = template.around(template.separator.join(documents))
    return Grounded(before=before, after=after, kept=len(documents), given=len(documents), tokens=tokens)


def take_whole(
    template: Template, content: str, documents: Sequence[str], encoding: Encoding, room: int
) -> Grounded | None:
    """As many whole documents as add at most ``room`` tokens, in their order, up to the first that does not fit.

    None when not even the first fits. The rule of docs-assistant's 1,536 tokens.
    """

    @cache
    def added(kept: int) -> int:
        return added_tokens(template, content, documents[:kept], encoding)

    # Counts of joined text are not sums of counts, so what a cut of the whole suggests is checked around itself.
    kept = _whole_documents(template, documents, len(cut_text(template.separator.join(documents), encoding, room)))
    while kept > 0 and added(kept) > room:
        kept -= 1
    while kept < len(documents) and added(kept + 1) <= room:
        kept += 1
    if kept == 0:
        return None
    return msgspec.structs.replace(everything(template, documents[:kept], added(kept)), given=len(documents))


def trim(template: Template, content: str, documents: Sequence[str], encoding: Encoding, room: int) -> Grounded | None:
    """Documents cut to what adds at most ``room`` tokens: whole ones first, then one cut at a character boundary.

    None when no character of a document fits beside the template's own text.
    """
    joined = template.separator.join(documents)
    plain = count_text(content, encoding)

    @cache
    def added(length: int) -> int:
        before, after = template.around(joined[:length])
        return count_text(before + content + after, encoding) - plain

    # The cut fits by itself; where it meets the template's text and the content, tokens merge or come apart.
    length = len(cut_text(joined, encoding, room - added(0)))
    while length > 0 and added(length) > room:
        length -= 1
    while step := next((s for s in range(1, min(_STEPS, len(joined) - length) + 1) if added(length + s) <= room), 0):
        length += step
    length = _without_separator_stub(template, documents, length)
    while length > 0 and added(length) > room:
        length -= 1
    if length <= 0:
        return None
    before, after = template.around(joined[:length])
    return Grounded(
        before=before,
        after=after,
        kept=_started_documents(template, documents, length),
        given=len(documents),
        tokens=added(length),
        cut=length < len(joined),
    )


def _whole_documents(template: Template, documents: Sequence[str], length: int) -> int:
    """How many documents lie wholly within the first ``length`` characters of the joined text."""
    end = 0
    for index, document in enumerate(documents):
        end += len(document)
        if end > length:
            return index
        end += len(template.separator)
    return len(documents)


def _started_documents(template: Template, documents: Sequence[str], length: int) -> int:
    """How many documents have a character, or their place when they are empty, within the first ``length`` ones."""
    start = 0
    for index, document in enumerate(documents):
        if start >= length:
            return index
        start += len(document) + len(template.separator)
    return len(documents)


def _without_separator_stub(template: Template, documents: Sequence[str], length: int) -> int:
    """A cut that falls into a separator goes back to the end of the document before it."""
    end = 0
    for document in documents:
        end += len(document)
        if end < length <= end + len(template.separator):
            return end
        end += len(template.separator)
    return length


def splice(body: bytes, start: int, end: int, before: str, after: str) -> bytes:
    """The message's JSON with text before and after its content; string and part-list contents alike.

    ``start`` and ``end`` bound the content's value in ``body``.
    """
    value = body[start:end]
    match value[:1]:
        case b'"':
            value = b'"' + _escaped(before) + value[1:-1] + _escaped(after) + b'"'
        case b"[":
            value = b"[" + b",".join((*_part(before), *filter(None, (value[1:-1],)), *_part(after))) + b"]"
        case _:
            value = b'"' + _escaped(before) + _escaped(after) + b'"'
    return body[:start] + value + body[end:]


def _escaped(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]


def _part(text: str) -> tuple[bytes, ...]:
    return (msgspec.json.encode({"type": "text", "text": text}),) if text else ()


def content_text(value: bytes) -> str:
    """The text of a content's JSON value, as it is counted: text parts concatenate."""
    content = msgspec.json.decode(value) if value else None
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or () if part.get("type") == "text")

"""Documents as text: the template that writes them, and a message's JSON with their text in it.

Documents are stored apart from their question, and added to it only while it is the newest: later, the answer already
contains what mattered from them. A template gives the text, which is spliced into the message's stored JSON, before
and after the content's value, so the body is never decoded.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec

from sash.core.counts.measures.attachments import text_in
from sash.core.stored.stored_grounding import StoredDocument, StoredGrounding
from sash.problems import BadRequest

DEFAULT_TEMPLATE = "{content}\n\nSources:\n{documents}"
DEFAULT_SEPARATOR = "\n---\n"
_CONTENT, _DOCUMENTS = "{content}", "{documents}"
_PLACE = re.compile(r"\{documents(?::((?:\{(?:text|title|url|id)\}|[^{}])*))?\}")
"""The documents' place, with the form of each: ``{documents:{title}\\n{text}}``."""
_NAME = re.compile(r"\{(text|title|url|id)\}")
_TEXT_ALONE = "{text}"


class Template(msgspec.Struct, frozen=True):
    """A parsed grounding template: the texts before and after the content, one of which has the documents' place."""

    before: str
    after: str
    separator: str
    digest: bytes
    form: str = _TEXT_ALONE
    """How each document is written."""

    def written(self, stored: StoredGrounding) -> StoredGrounding:
        """The documents with all their texts as the form writes them: with title, address and id where it names them."""
        if self.form == _TEXT_ALONE:
            return stored
        documents, shorter = [], []
        for index, (identity, text) in enumerate(stored.documents):
            source = stored.source(index)
            said = {"title": source.title, "url": source.url, "id": identity}
            documents.append((identity, self._written(text, said)))
            levels = stored.shorter[index] if stored.shorter else ()
            shorter.append([self._written(level, said) for level in levels])
        return msgspec.structs.replace(stored, documents=documents, shorter=shorter if any(shorter) else [])

    def _written(self, text: str, said: Mapping[str, str | None]) -> str:
        """One text in the form. A line that names what the document does not have is left out, but for that of the text."""
        values = {**said, "text": text}

        def is_said(line: str) -> bool:
            names = _NAME.findall(line)
            return "text" in names or all(values[name] for name in names)

        lines = filter(is_said, self.form.split("\n"))
        return _NAME.sub(lambda found: values[found[1]] or "", "\n".join(lines)).strip("\n")

    def around(self, texts: Sequence[str]) -> tuple[str, str]:
        """The texts before and after the message's content, with those of documents in their place."""
        documents = self.separator.join(texts)
        return self.before.replace(_DOCUMENTS, documents), self.after.replace(_DOCUMENTS, documents)


@lru_cache(maxsize=1024)
def parse_template(template: str | None = None, separator: str | None = None) -> Template:
    """The parsed template; None stands for the default. Raises BadRequest unless it has ``{content}`` and ``{documents}``
    once each."""
    template = DEFAULT_TEMPLATE if template is None else template
    separator = DEFAULT_SEPARATOR if separator is None else separator
    places = [*_PLACE.finditer(template)]
    if not template.count(_CONTENT) == len(places) == 1:
        raise BadRequest.at("#/grounding_template", "The template must contain {content} and {documents}, once each")
    form = _TEXT_ALONE if places[0][1] is None else places[0][1]
    if form.count(_TEXT_ALONE) != 1:
        what = "The form of a document must contain {text} once, as in {documents:{title}\\n{text}}"
        raise BadRequest.at("#/grounding_template", what)
    before, _, after = _PLACE.sub(_DOCUMENTS, template).partition(_CONTENT)
    digest = blake2b(msgspec.json.encode((template, separator)), digest_size=4).digest()
    return Template(before, after, separator, digest, form)


def check_template(template: str | None, separator: str | None) -> None:
    """Raise BadRequest for a template that cannot be used, or that names a document's title beside the documents."""
    parse_template(template, separator)
    beside = _NAME.search(_PLACE.sub("", template or ""))
    if beside:
        what = f"{beside[0]} is of each document, and belongs into their form, as in {{documents:{{title}}\\n{{text}}}}"
        raise BadRequest.at("#/grounding_template", what)


class Grounded(msgspec.Struct, frozen=True, kw_only=True):
    """A message's documents that are sent: the texts around its content, and the tokens of the encoding that they add.

    ``documents`` are those of which at least a character is sent, and ``places`` are theirs among the message's. If ``cut``,
    the last one is not whole. ``cost`` are the tokens by which their message costs more for the model.
    """

    before: str
    after: str
    tokens: int
    cost: int
    cut: bool
    documents: tuple[StoredDocument, ...]
    places: tuple[int, ...]
    levels: tuple[int, ...]
    """The level of each, of which 0 is its longest text."""
    allowed: int
    """The number of documents that their own budget allows; with fewer sent, the others do not fit the window."""

    @property
    def kept(self) -> int:
        """The number of documents that are sent."""
        return len(self.places)


def sent_texts(written: StoredGrounding) -> list[str]:
    """The longest text of each document. Documents whose text is empty are left out."""
    return [text for _, text in written.documents if text.strip()]


def splice(body: bytes, start: int, end: int, before: str, after: str) -> bytes:
    """The message's JSON with text added before and after its content, which is a string or a list of parts.

    ``start`` and ``end`` are the offsets of the content's value in ``body``.
    """
    value = body[start:end]
    if value[:1] == b"[":
        value = b"[" + b",".join((*_part(before), *filter(None, (value[1:-1],)), *_part(after))) + b"]"
    else:  # a string, or null
        said = value[1:-1] if value[:1] == b'"' else b""
        value = b'"' + _escaped(before) + said + _escaped(after) + b'"'
    return body[:start] + value + body[end:]


def _escaped(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]


def _part(text: str) -> tuple[bytes, ...]:
    return (msgspec.json.encode({"type": "text", "text": text}),) if text else ()


def content_texts(content: Any) -> list[str]:
    """The texts of a content, which is a string, a list of parts or None, with those of text files."""
    if isinstance(content, str):
        return [content]
    return [part.get("text") or "" if part.get("type") == "text" else text_in(part) for part in content or ()]

"""Documents as text: the template that writes them, and a message's JSON with their text in it.

The text is spliced into the message's stored JSON before and after the content's value, so the body is never decoded.
"""

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

import msgspec

from sash.core.counts.measures.attachments import text_in
from sash.core.stored.stored_grounding import DocumentSource, StoredDocument, StoredGrounding
from sash.problems import BadRequest

DEFAULT_TEMPLATE = "{content}\n\nSources:\n{documents}"
DEFAULT_SEPARATOR = "\n---\n"
_CONTENT, _DOCUMENTS = "{content}", "{documents}"
_PLACE = re.compile(r"\{documents(?::((?:\{(?:text|title|url|id)\}|[^{}])*))?\}")
"""The documents' place, with the form of each: ``{documents:{title}\\n{text}}``."""
_NAME = re.compile(r"\{(text|title|url|id)\}")
_TEXT_ALONE = "{text}"


class Template(msgspec.Struct, frozen=True):
    """A parsed grounding template: the texts before and after the content, one with the documents' place, and their form."""

    before: str
    after: str
    separator: str
    digest: bytes
    form: str = _TEXT_ALONE

    def written(self, stored: StoredGrounding) -> StoredGrounding:
        """The documents with all their texts as the form writes them: with title, address and id where it names them."""
        if self.form == _TEXT_ALONE:
            return stored
        documents, shorter = [], []
        for index, (identity, text) in enumerate(stored.documents):
            write = partial(self._written, identity, stored.source(index))
            documents.append((identity, write(text)))
            shorter.append([*map(write, stored.shorter[index])] if stored.shorter else [])
        return msgspec.structs.replace(stored, documents=documents, shorter=shorter if any(shorter) else [])

    def _written(self, identity: str | None, source: DocumentSource, text: str) -> str:
        """One text in the form. A line that names what the document does not have is left out, but for that of the text."""
        values = {"title": source.title, "url": source.url, "id": identity, "text": text}
        lines = [
            line
            for line in self.form.split("\n")
            if _TEXT_ALONE in line or all(values[name] for name in _NAME.findall(line))
        ]
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

    ``documents`` are those of which at least a character is sent, ``places`` are theirs among the message's, and ``levels``
    which of their texts is sent; 0 is the longest. If ``cut``, the last one is not whole. ``cost`` are the tokens by which
    their message costs more for the model. ``allowed`` is the number of documents that their own budget allows.
    """

    before: str
    after: str
    tokens: int
    cost: int
    cut: bool
    documents: tuple[StoredDocument, ...]
    places: tuple[int, ...]
    levels: tuple[int, ...]
    allowed: int


def sent_texts(written: StoredGrounding) -> list[str]:
    """The longest text of each document. Documents whose text is empty are left out."""
    return [text for _, text in written.documents if text.strip()]


def splice(body: bytes, start: int, end: int, before: str, after: str) -> bytes:
    """The message's JSON with text added before and after its content, which is a string or a list of parts.

    ``start`` and ``end`` are the offsets of the content's value in ``body``.
    """
    value = body[start:end]
    if value[:1] == b"[":
        value = b"[" + b",".join(filter(None, (_part(before), value[1:-1], _part(after)))) + b"]"
    else:  # a string, or null
        said = value[1:-1] if value[:1] == b'"' else b""
        value = msgspec.json.encode(before)[:-1] + said + msgspec.json.encode(after)[1:]
    return body[:start] + value + body[end:]


def _part(text: str) -> bytes:
    return msgspec.json.encode({"type": "text", "text": text}) if text else b""


def content_texts(content: Any) -> list[str]:
    """The texts of a content, which is a string, a list of parts or None, with those of text files."""
    if isinstance(content, str):
        return [content]
    return [part.get("text") or "" if part.get("type") == "text" else text_in(part) for part in content or ()]

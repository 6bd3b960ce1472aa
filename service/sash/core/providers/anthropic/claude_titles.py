"""Titles of documents and of citations as Claude takes them, and marks for the prompt cache inside documents."""

from collections.abc import Sequence
from typing import Final

from sash.core.providers.messages.mends import Mend
from sash.core.providers.writing.turns import Block, RequestWriting

TITLE: Final = Mend(
    name="title",
    refused="A document's title that is empty or longer than 500, its empty `context`; the title in a citation that is "
    "empty or longer than 255",
    sent="The document without it, the citation with null; of a longer title its beginning",
    evidence="Anthropic's OpenAPI document: RequestDocumentBlock.title has 1 to 500 characters and `context` at least one, "
    "RequestCharLocationCitation.document_title and RequestWebSearchResultLocationCitation.title have 1 to 255 or are null",
)
NESTED_MARK: Final = Mend(
    name="nested_mark",
    is_free=True,
    refused="`cache_control` on a block inside a document",
    sent="The mark on the document",
    evidence="'sub-content blocks themselves cannot be cached directly. Instead, cache the top-level block' "
    "(platform.claude.com, prompt caching, 'What cannot be cached')",
)
_LONGEST_TITLE: Final = 500
_LONGEST_CITED: Final = 255
"""Characters of a document's title, and of the title in a citation."""
_CITED_TITLES: Final = ("document_title", "title")


def titled(document: Block, seq: int, writing: RequestWriting) -> Block:
    """Return a document with a title and a context that are accepted."""
    left = {name: each for name, each in document.items() if each != "" or name not in ("title", "context")}
    if isinstance(title := left.get("title"), str):
        left["title"] = title[:_LONGEST_TITLE]
    if left == document:
        return document
    writing.mends.add(TITLE, seq)
    return left


def cited(text: Block, seq: int, writing: RequestWriting) -> Block:
    """Return a text whose citations have titles that are accepted."""
    given = text.get("citations")
    if not isinstance(given, list):
        return text
    found = [_with_title(each) if isinstance(each, dict) else each for each in given]
    if found == given:
        return text
    writing.mends.add(TITLE, seq)
    return {**text, "citations": found}


def _with_title(citation: Block) -> Block:
    titles = {name: citation[name] for name in _CITED_TITLES if isinstance(citation.get(name), str)}
    return {**citation, **{name: title[:_LONGEST_CITED] or None for name, title in titles.items()}}


def marked_outside(document: Block, held: Sequence[Block], seq: int, writing: RequestWriting) -> Block:
    """Return a document of these blocks with their last mark for the prompt cache on it, if it has none."""
    marks = [block["cache_control"] for block in held if block.get("cache_control")]
    if not marks:
        return document
    writing.mends.add(NESTED_MARK, seq)
    inner = [{name: each for name, each in block.items() if name != "cache_control"} for block in held]
    source = {**document["source"], "content": inner}
    return {**document, "source": source, "cache_control": document.get("cache_control") or marks[-1]}

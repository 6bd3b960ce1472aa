"""A message's documents, as they are stored."""

from typing import Any, Final

import msgspec

StoredDocument = tuple[str | None, str]
"""A document's id and text. Two are the same where both are."""


class DocumentSource(msgspec.Struct, array_like=True, frozen=True):
    """Where a document is from: what its client said about it beside its text."""

    title: str | None = None
    url: str | None = None
    metadata: dict[str, Any] | None = None


NO_SOURCE: Final = DocumentSource()
"""The source of a document that has its text alone, or an id."""


class StoredGrounding(msgspec.Struct, array_like=True, frozen=True):
    """A message's documents. ``start`` and ``end`` are the offsets of the content's value in the body.

    ``template`` is the digest of the template and separator of the stored counts. If the conversation's template changes,
    the documents are counted again. ``shorter`` are the shorter levels of each document; empty if none has any. ``sources``
    are where the documents are from; empty if none says it.
    """

    template: bytes
    start: int
    end: int
    documents: list[StoredDocument]
    shorter: list[list[str]] = []
    sources: list[DocumentSource] = []

    def levels(self, index: int) -> list[str]:
        """The texts of a document, the longest first. One that is empty, or not shorter than the text before it, is left
        out."""
        texts = [self.documents[index][1]]
        for text in self.shorter[index] if self.shorter else ():
            if len(text) < len(texts[-1]) and text.strip():
                texts.append(text)
        return texts

    def source(self, index: int) -> DocumentSource:
        """Where a document is from."""
        return self.sources[index] if self.sources else NO_SOURCE


encode_grounding = msgspec.msgpack.Encoder().encode


decode_grounding = msgspec.msgpack.Decoder(StoredGrounding).decode

"""Other products' ways to recall messages: LangChain's vector store over exchanges, and a search over messages' vectors.

Both normally ask an embeddings endpoint; here the vectors are WordLlama's, which need no network. agent-memory-server is
not run, because it needs a provider's key: its search, the cosine over messages' vectors, is implemented here.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from recall.embeddings import vectors
from recall.ways import Conversation, Way, half


def peers() -> dict[str, Way]:
    """Return each way by its name in the table; LangChain's only if it is installed."""
    found: dict[str, Way] = {"half tail, half messages by vectors (agent-memory-server's search)": by_vectors}
    try:
        import langchain_core.vectorstores  # noqa: F401, PLC0415
    except ImportError:
        return found
    return {**found, "half tail, half exchanges by vectors (LangChain's vector store)": by_langchain}


def by_vectors(told: Conversation, question: str, budget: int) -> set[int]:
    """Return half a tail, and the messages whose vectors are nearest to the question's."""
    near = _matrix(told.id, tuple(told.text(place) for place in range(len(told.costs)))) @ _unit(question)
    return half(told, budget, ([int(place)] for place in np.argsort(-near)))


def by_langchain(told: Conversation, question: str, budget: int) -> set[int]:
    """Return half a tail, and the exchanges that LangChain's in-memory store finds for the question."""
    store = _store(told.id, tuple(tuple(piece) for piece in _exchanges(told)), tuple(_texts(told)))
    found = store.similarity_search(question, k=len(told.costs))
    return half(told, budget, (document.metadata["places"] for document in found))


def _exchanges(told: Conversation) -> Iterator[list[int]]:
    places = range(len(told.costs))
    return ([*places[start : start + 2]] for start in range(0, len(places), 2))


def _texts(told: Conversation) -> list[str]:
    return ["\n".join(map(told.text, piece)) for piece in _exchanges(told)]


@lru_cache(maxsize=16)
def _store(_: str, pieces: tuple[tuple[int, ...], ...], texts: tuple[str, ...]) -> Any:
    from langchain_core.documents import Document  # noqa: PLC0415
    from langchain_core.embeddings import Embeddings  # noqa: PLC0415
    from langchain_core.vectorstores import InMemoryVectorStore  # noqa: PLC0415

    class Local(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return vectors(texts)

        def embed_query(self, text: str) -> list[float]:
            return vectors([text])[0]

    store = InMemoryVectorStore(Local())
    store.add_documents([Document(text, metadata={"places": piece}) for piece, text in zip(pieces, texts, strict=True)])
    return store


@lru_cache(maxsize=16)
def _matrix(_: str, texts: tuple[str, ...]) -> Any:
    rows = np.array(vectors(list(texts)))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@lru_cache(maxsize=4096)
def _unit(text: str) -> Any:
    row = np.array(vectors([text])[0])
    return row / np.linalg.norm(row)

"""The objects that handlers share."""

import asyncio
from collections.abc import Mapping

import msgspec

from sash.api.events.followers import Followers
from sash.core.counts.models.models import Model
from sash.operations.indexer import Indexer
from sash.operations.metrics import Metrics
from sash.operations.requests import Requests
from sash.operations.statistics import Statistics
from sash.operations.summarizer import Summarizer
from sash.operations.upstreams import Upstreams
from sash.operations.watch import Watch
from sash.settings import Settings
from sash.store.data.stores import Stores
from sash.windows.again import ServedWindows
from sash.windows.recaller import Recaller
from sash.windows.stored import Windows
from sash.windows.tool_answers import ToolAnswers


class Recall(msgspec.Struct, frozen=True):
    """The search for older messages, and the upkeep of their index."""

    recaller: Recaller
    indexer: Indexer
    answers: ToolAnswers


class Watching(msgspec.Struct, frozen=True):
    """Metrics and other figures for operators."""

    metrics: Metrics
    requests: Requests
    statistics: Statistics
    watch: Watch
    upstreams: Upstreams


class Context(msgspec.Struct, frozen=True):
    """The objects that handlers share. ``service/sash/app.py`` makes one when the application starts."""

    settings: Settings
    models: Mapping[str, Model]
    """A deployment's own models, by name."""
    store: Stores
    windows: Windows
    served: ServedWindows
    recall: Recall
    watching: Watching
    followers: Followers
    summarizer: Summarizer | None = None
    long_lines: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held while an import's line that is longer than a body may be is decoded."""
    drifting: set[str] = msgspec.field(default_factory=set)
    """Ids of exact models whose drift this process has logged."""

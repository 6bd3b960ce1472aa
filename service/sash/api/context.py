"""The objects that handlers share."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from sash.api.events.followers import Followers
from sash.core.counts.models.models import Model
from sash.operations.indexer import Indexer
from sash.operations.logging import best_effort
from sash.operations.metrics import Metrics
from sash.operations.requests import Requests
from sash.operations.served import tell_window
from sash.operations.statistics import Statistics
from sash.operations.summarizer import Summarizer
from sash.operations.watch import Watch
from sash.settings import Settings
from sash.store.data.layout import Target
from sash.store.data.replies import State
from sash.store.data.stores import Stores
from sash.windows.again import ServedWindows
from sash.windows.answer import Made
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

    def tell_made(self, line: dict[str, Any], target: Target, made: Made, state: State, seconds: float) -> None:
        """Report a conversation's window, made in ``seconds``, to the summariser, the metrics and the log line."""
        view, windows = made.asked.query.view, self.watching.metrics.windows
        with best_effort:
            tell_window(self.watching.metrics, made, seconds, line, key=(target.name, made.head.model, view))
        with best_effort:
            windows.given()
            if self.summarizer is not None and view is None:  # a summary is of what all may see
                self.summarizer.notice(target, state, made.window, made.asked.limits.model)

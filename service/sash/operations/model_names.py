"""The models that are labels of metrics: at most twenty, and ``other``, whatever is asked.

The first ten models of known names have labels at once. Ten more get one when they have been used fifty times, so that a
client that asks for every model once takes no label from those in use. A label stays until the service ends, because a
counter may not go back. The workers of a machine share the labels: each is a symbolic link in their common folder, which
one worker alone can make, and whose target is the model's name.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

LABELS: Final = 20
AT_ONCE: Final = 10
USES: Final = 50
"""Uses before one of the later labels."""

OTHER: Final = "other"


class ModelNames:
    """Labels of models. ``folder`` is the workers' common folder; None for a single worker."""

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder) if folder is not None else None
        self._providers: dict[str, str] = {}
        self._labels: list[str] = []
        self._uses: Counter[str] = Counter()

    def know(self, providers: Mapping[str, str]) -> None:
        """Use these models' names from now on; ``providers`` has the provider of each."""
        self._providers |= {name: provider for name, provider in providers.items() if "|" not in name}

    def known(self, name: str) -> str:
        """The model's name if it is known, else ``other``, as for invented and fine-tuned models' names."""
        return name if name in self._providers else OTHER

    def provider_of(self, label: str) -> str:
        """The provider of a label; ``other`` for that of other models."""
        return self._providers.get(label, OTHER)

    def label(self, name: str) -> str:
        """The model's label, and count the use."""
        if name in self._labels:
            return name
        if name not in self._providers or len(self._labels) == LABELS:
            return OTHER
        self._uses[name] += 1
        while name not in self._labels and self._may_take(name):
            self._labels.append(self._taken(name))
        return name if name in self._labels else OTHER

    def _may_take(self, name: str) -> bool:
        given = len(self._labels)
        return given < AT_ONCE or (given < LABELS and self._uses[name] >= USES)

    def _taken(self, name: str) -> str:
        """Who has the next label: this model, or the one to which another worker gave it meanwhile."""
        if self._folder is None:
            return name
        link = self._folder / f"model-{len(self._labels)}"
        try:
            with suppress(FileExistsError):
                link.symlink_to(name)
            return str(link.readlink())
        except OSError:  # the folder is gone: the service ends
            return name

"""A script: what a client sends of one conversation, and the windows that it asks for. As JSON it can be run again."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Object = dict[str, Any]
Sent = tuple[str, list[Any]]
"""Messages that are appended together, and their format."""


@dataclass
class Script:
    """One conversation from its settings to its windows."""

    feature: str
    settings: Object = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    changes: list[tuple[str, str, Any]] = field(default_factory=list)
    """Method, path behind the conversation's, and body (None for none) of what is asked after the appends."""
    windows: list[Object] = field(default_factory=list)
    """The parameters of each window."""
    unsent: list[int] = field(default_factory=list)
    """Seqs of messages that no window may keep: replies that are written, or were stopped before a word."""

    @property
    def messages(self) -> int:
        return sum(len(messages) for _, messages in self.sent)

    def text(self) -> str:
        """Return the script as JSON, with escapes for all that is not ASCII, so that half of a surrogate pair is kept."""
        return json.dumps(asdict(self), indent=1)


def script_of(text: str) -> Script:
    found = json.loads(text)
    found["sent"] = [(form, messages) for form, messages in found["sent"]]
    found["changes"] = [(method, path, body) for method, path, body in found["changes"]]
    return Script(**{name: value for name, value in found.items() if name != "found"})


def save(script: Script, folder: Path, found: Object) -> Path:
    """Write a failing script with what was found, under a name that tells the kind and the feature."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    name = f"{found['kind']}-{script.feature}".replace(" ", "-").replace("'", "")
    while (path := folder / f"{name}-{number}.json").exists():
        number += 1
    path.write_text(json.dumps({"found": found} | asdict(script), indent=1) + "\n")
    return path


def body_of(value: Any) -> bytes:
    """Return JSON as hostile clients write it: numbers without bounds, halves of surrogate pairs as escapes."""
    return json.dumps(value).encode()

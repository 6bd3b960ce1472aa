"""A table of OpenAI's models. Other makers' models are in listings.py.

Published windows are sometimes the total and sometimes the input alone; the table has both.
"""

import re
from collections.abc import Sequence

import msgspec

from sash.core.counts.models.names import ModelName
from sash.core.counts.text import Encoding

K = 1_000
# After a known name there may be a date, a build number or a variant of the same model.
_DATED = r"(-\d{4}-\d{2}-\d{2}|-\d{4}|-\d{8}|-latest|-preview|-\d{4}-preview|-high)*"
_OLDER = frozenset({"gpt-3.5-0301", "gpt-2023", "gpt-3.5", "gpt-4-turbo"})
"""Families with the encoding cl100k_base; the others have o200k_base."""


class ModelRow(msgspec.Struct):
    """One line of the table: models' names, their family, and limits in tokens.

    The names of ``UNLISTED`` are found by ``pattern``, with the figures of the model that the line ``assumes``.
    """

    names: str
    family: str
    context_window: int
    max_input: int | None = None
    max_output: int | None = None
    exact: bool = True
    pattern: str = ""
    assumes: str | None = None

    def __post_init__(self) -> None:
        """Make the pattern of the names, if none is given."""
        self.pattern = self.pattern or f"({'|'.join(map(re.escape, self.names.split()))}){_DATED}"

    @property
    def encoding(self) -> Encoding:
        """The encoding of its family."""
        return "cl100k_base" if self.family in _OLDER else "o200k_base"


TABLE: tuple[ModelRow, ...] = (
    ModelRow("gpt-3.5-turbo-0301", "gpt-3.5-0301", 4_096, max_output=4_096),
    ModelRow("gpt-3.5-turbo-0613", "gpt-2023", 4_096, max_output=4_096),
    ModelRow("gpt-3.5-turbo-16k gpt-3.5-turbo-16k-0613", "gpt-2023", 16_385, max_output=4_096),
    ModelRow("gpt-3.5-turbo", "gpt-3.5", 16_385, max_output=4_096, pattern=r"gpt-3\.5-turbo"),
    ModelRow("gpt-3.5-turbo-0125 gpt-3.5-turbo-1106", "gpt-4-turbo", 16_385, max_output=4_096),
    ModelRow("gpt-4-32k gpt-4-32k-0314 gpt-4-32k-0613", "gpt-2023", 32_768, max_output=32_768),
    ModelRow("gpt-4-turbo gpt-4-turbo-2024-04-09 gpt-4-1106-preview gpt-4-0125-preview gpt-4-turbo-preview "
        "gpt-4-vision-preview gpt-4-1106-vision-preview", "gpt-4-turbo", 128 * K, max_output=4_096),
    ModelRow("gpt-4 gpt-4-0314 gpt-4-0613", "gpt-2023", 8_192, max_output=8_192),
    ModelRow("gpt-4o-search-preview gpt-4o-mini-search-preview", "search", 128 * K, max_output=16_384),
    ModelRow("gpt-4o-audio-preview gpt-4o-mini-audio-preview gpt-audio gpt-audio-mini gpt-audio-1.5", "gpt-4o", 128 * K,
        max_output=16_384, exact=False),
    ModelRow("gpt-4o-mini", "gpt-4o-mini", 128 * K, max_output=16_384),
    ModelRow("gpt-4o chatgpt-4o-latest gpt-4o-2024-05-13 gpt-4o-2024-08-06 gpt-4o-2024-11-20", "gpt-4o", 128 * K,
        max_output=16_384),
    ModelRow("gpt-4.1-mini", "gpt-4.1-mini", 1_047_576, max_output=32_768),
    ModelRow("gpt-4.1-nano", "gpt-4.1-nano", 1_047_576, max_output=32_768),
    ModelRow("gpt-4.1", "gpt-4.1", 1_047_576, max_output=32_768),
    ModelRow("gpt-4.5-preview gpt-4.5", "gpt-4o", 128 * K, max_output=16_384),
    ModelRow("o1-mini o1-preview", "o1-mini", 128 * K, max_output=65_536),
    ModelRow("o3-mini", "o3-mini", 200 * K, max_output=100 * K),
    ModelRow("o1 o1-pro o3 o3-pro o3-deep-research", "o", 200 * K, max_output=100 * K),
    ModelRow("o4-mini o4-mini-deep-research", "o4-mini", 200 * K, max_output=100 * K),
    ModelRow("codex-mini codex-mini-latest", "codex-mini", 200 * K, max_output=100 * K, exact=False),
    ModelRow("computer-use-preview", "computer-use", 8_192, max_output=1_024, exact=False),
    ModelRow("gpt-5-chat-latest gpt-5-chat", "gpt-5-chat", 128 * K, max_output=16_384, exact=False),
    ModelRow("gpt-5.1-chat-latest gpt-5.2-chat-latest gpt-5.3-chat-latest gpt-5.1-chat gpt-5.2-chat gpt-5.3-chat "
        "gpt-chat-latest", "gpt-5", 128 * K, max_output=16_384, exact=False),
    ModelRow("gpt-5.1-codex-mini", "gpt-5-codex-mini", 400 * K, max_input=272 * K, max_output=128 * K, exact=False),
    ModelRow("gpt-5-mini gpt-5.1-mini", "gpt-5-mini", 400 * K, max_input=272 * K, max_output=128 * K),
    ModelRow("gpt-5-nano", "gpt-5-nano", 400 * K, max_input=272 * K, max_output=128 * K),
    ModelRow("gpt-5 gpt-5-pro gpt-5-codex gpt-5.1 gpt-5.1-codex gpt-5.1-codex-max", "gpt-5", 400 * K, max_input=272 * K,
        max_output=128 * K),
    ModelRow("gpt-5.2 gpt-5.2-pro gpt-5.2-codex gpt-5.3-codex", "gpt-5.2", 400 * K, max_input=272 * K, max_output=128 * K),
    ModelRow("gpt-5.4-mini gpt-5.4-nano", "gpt-5.4", 400 * K, max_input=272 * K, max_output=128 * K),
    ModelRow("gpt-5.4 gpt-5.4-pro", "gpt-5.4", 1_050 * K, max_output=128 * K),
    ModelRow("gpt-5.5 gpt-5.5-pro", "gpt-5.4", 1_050 * K, max_output=128 * K, exact=False),
    ModelRow("gpt-5.6 gpt-5.6-sol gpt-5.6-luna gpt-5.6-terra gpt-5.6-sol-pro gpt-5.6-luna-pro gpt-5.6-terra-pro", "gpt-5.4",
        1_050 * K, max_input=922 * K, max_output=128 * K, exact=False),
    ModelRow("gpt-6 gpt-6-sol gpt-6-luna gpt-6-astra gpt-6.1-sol gpt-6.1-terra gpt-6.2-sol", "gpt-5.4",
        1_050 * K, max_input=922 * K, max_output=128 * K, exact=False),
    ModelRow("gpt-5-image gpt-5-image-mini", "gpt-5-image", 400 * K, max_input=272 * K, max_output=128 * K, exact=False),
)  # fmt: skip

# The first line that matches wins.
UNLISTED: tuple[ModelRow, ...] = (
    ModelRow("", "gpt-2023", 8_192, exact=False, pattern=r"gpt-(3\.5|4)(?![.\w])(?!-omni).*", assumes="gpt-4"),
    ModelRow("", "gpt-4o", 128 * K, max_output=16_384, exact=False, pattern=r"(gpt-4o|chatgpt-4o|gpt-audio).*",
        assumes="gpt-4o"),
    ModelRow("", "gpt-4.1", 1_047_576, max_output=32_768, exact=False, pattern=r"gpt-4\.1.*", assumes="gpt-4.1"),
    ModelRow("", "o", 200 * K, max_output=100 * K, exact=False, pattern=r"o[134](-.*)?", assumes="o3"),
    ModelRow("", "gpt-5.4", 128 * K, max_output=16_384, exact=False, pattern=r"gpt-\d.*-chat.*", assumes="gpt-chat-latest"),
    ModelRow("", "gpt-5.4", 400 * K, max_input=272 * K, max_output=128 * K, exact=False,
        pattern=r"(gpt-5(\.[0-4])?(?!\.?\d)|gpt-4|gpt-(?!oss)[a-z]|o\d+($|-)|chatgpt-).*", assumes="gpt-5.4-mini"),
    ModelRow("", "gpt-5.4", 1_050 * K, max_input=922 * K, max_output=128 * K, exact=False, pattern=r"gpt-\d.*",
        assumes="gpt-6.2-sol"),
)  # fmt: skip
"""Names that begin with none of the table: the rules and limits of the newest similar model, and counted as estimates."""


def row_of(name: ModelName) -> ModelRow | None:
    """Return the line that lists a name, as it is or as other sellers spell it; None if the table does not list it."""
    return _first(TABLE, name.bare) or _first(TABLE, name.spelled)


def newest_like(bare: str) -> ModelRow | None:
    """Return the line for a name that OpenAI may have given; None if it never gives such names."""
    return _first(UNLISTED, bare)


def _first(rows: Sequence[ModelRow], name: str) -> ModelRow | None:
    return next((row for row in rows if re.fullmatch(row.pattern, name)), None)

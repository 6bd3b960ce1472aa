"""What a window changes so that its provider accepts it. Each change is a mend: a rule with its evidence.

What is stored stays as it came. A window tells its mends by name, with the number of messages (``mended``), and ``explain``
has them for each message. A provider's own mends stand in its record; those below are of all forms.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec


class Mend(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: what a provider refuses, and what is sent in its place."""

    name: str
    """The reason's name in ``mended``."""
    refused: str
    """What the provider refuses, as the docs' table says it."""
    sent: str
    """What is sent in its place."""
    evidence: str
    """Where it is known from: a document, an SDK's type, a report, an answer of the provider."""
    is_free: bool = False
    """Whether the message costs the same: another id, another order, no mark."""


class Mends(msgspec.Struct):
    """The mends of one request, gathered while it is made: names by the message's seq. Fixed parts have seq 0."""

    told: dict[int, set[str]] = {}
    sent: dict[int, list[dict[str, Any]]] = {}
    """The own messages that are sent of a message, by its seq, as they are before its neighbours are joined with it. Not of
    texts alone."""

    changed: set[int] = set()
    """The seqs of messages that may cost less than they were chosen by."""

    joined: set[int] = set()
    """The seqs of messages of the form's own that are joined with the one before them."""

    joins: list[tuple[list[dict[str, Any]], dict[str, Any] | None]] = []
    """Chat messages that are sent as one, and that one; of the fixed parts also single ones that are sent otherwise, or
    left out."""

    def send(self, seq: int, own: dict[str, Any]) -> None:
        """Note an own message that is sent of message ``seq``; of a fixed part, which has seq 0, nothing."""
        if seq:
            self.sent.setdefault(seq, []).append(own)

    def add(self, mend: Mend, seq: int) -> None:
        """Note that message ``seq`` was changed by this mend."""
        self.told.setdefault(seq, set()).add(mend.name)
        if not mend.is_free:
            self.changed.add(seq)

    def add_names(self, names: Iterable[str], seq: int) -> None:
        """Note mends by their names."""
        self.told.setdefault(seq, set()).update(names)

    def reasons(self) -> dict[str, int]:
        """The number of changed messages by mend, in the order of the names."""
        return dict(sorted(Counter(name for names in self.told.values() for name in names).items()))

    def of(self, seq: int) -> list[str]:
        """The names of one message's mends, sorted."""
        return sorted(self.told.get(seq, ()))


UNANSWERED_CALL: Final = Mend(
    name="unanswered_call",
    refused="A tool call without a result, before other messages",
    sent='A result: "No result was recorded: the call was interrupted." With `unanswered=drop` the call is left out',
    evidence="All four providers answer 400 for a call without its result",
)
LATE_RESULT: Final = Mend(
    name="late_result",
    is_free=True,
    refused="A tool result that does not stand directly behind its call",
    sent="The call's newest result, behind the call; what stood between follows",
    evidence="All four providers answer 400 for a result apart from its call",
)
FOREIGN_MEMBERS: Final = Mend(
    name="foreign_members",
    refused="Members of a message that are not the provider's: a frontend's `timestamp`; in another form than its own, a "
    "reply's citations, a document's title, a result's `is_error`, an assistant's `name`",
    sent="The message without them; of pictures in a reply, one line of text each. `SASH_SEND_MEMBERS` names members that "
    "are sent",
    evidence="OpenAI and Anthropic answer 400 for unknown members: 'Extra inputs are not permitted'",
)
AS_TEXT: Final = Mend(
    name="as_text",
    refused="A hosted tool's call or result in another provider's form; a picture, a file or a sound in a tool result "
    "where the form takes text alone; what has only an id or a link, where the form reads none",
    sent="One line of text in its place: what was asked and what was found, or what the picture is",
    evidence="Each provider's list of content types; chat completions' tool messages take text parts alone",
)
LEFT_OUT: Final = Mend(
    name="left_out_part",
    refused="A part of a message that the form has no place for, with `uncarried=drop`",
    sent="The message without the part",
    evidence="Each provider's list of content types",
)
LOST_MEDIUM: Final = Mend(
    name="lost_medium",
    refused="A picture, a file or a sound of which the storage has lost the bytes, or has others than were stored",
    sent="One line of text in its place, with its type and its size. The same picture, appended again, brings it back",
    evidence="A name in the log is no proof that the bytes are there: objects are removed by hand, by rules of a bucket, or "
    "lost with a disk",
)
FOREIGN_REFERENCE: Final = Mend(
    name="foreign_reference",
    refused="A file that was uploaded to another provider, such as Gemini's at Claude",
    sent="One line of text in its place, with its type",
    evidence="Google's files answer 403 to all but the key that wrote them (google-gemini/deprecated-generative-ai-python "
    "692, snailyp/gemini-balance 401); OpenAI and Anthropic answer 404 to an id that is not theirs",
)
ENDED_REFERENCE: Final = Mend(
    name="ended_reference",
    refused="A file of which the address has ended: a file of Gemini's after 48 hours, a signed address after its time",
    sent="One line of text in its place, with its type",
    evidence="'You do not have permission to access the File … or it may not exist' (google-gemini/"
    "deprecated-generative-ai-python 692, vicajilau/quizdy 214); a signed address of S3, Google or Azure answers 403 after "
    "its time, which it tells",
)
UNTAKEN_BY_MODEL: Final = Mend(
    name="untaken_by_model",
    refused="A picture, a sound or a file that the model does not take, as `GET /models/{model}` tells: a picture by "
    "GPT-3.5, DeepSeek, Kimi K2 and others that read text alone, a sound by GPT-4o and GPT-5; a picture's address, by a "
    "host that fetches none",
    sent="One line of text in its place, with its type and size, and where it is kept. A model that takes it gets it",
    evidence="DeepSeek answers 400: 'unknown variant `image_url`, expected `text`' (rikkahub/rikkahub 1433), Z.ai: "
    "\"messages.content.type … ['text']\" (TriDefender/zcode-api 26), OpenRouter 404: 'No endpoints found that support "
    "image input' (nexu-io/nexu 875); destinations/README.md has a row for each family",
)
SYSTEM_NOTE: Final = Mend(
    name="system_note",
    refused="A system message behind other messages, where the form has system texts before them alone",
    sent='A text of the user\'s in its place: "System note: …". In front it would change the beginning of the request, and '
    "the provider's cache would have nothing of it",
    evidence="Of 4,835 tokens 4,756 were read from the cache with the note in its place, none with it in front "
    "(BerriAI/litellm 38053, Blaizzy/mlx-vlm 2052)",
)
TOOL_SCHEMA: Final = Mend(
    name="tool_schema",
    refused="In a tool's definition: `null`; a tool named twice; parameters by reference, without `type` or `properties`, "
    "or with `oneOf`, `anyOf`, `allOf`, `enum` or `not` at their top; an array without `items`, or with a list of them; a "
    "type that JSON Schema does not have; `required`, `enum` or `anyOf` that is empty or no list; a boolean "
    "`exclusiveMinimum`; a `$ref` that leads nowhere; by Moonshot also a type beside `anyOf` or `$ref`, and a property "
    "without one",
    sent="The definition without it: the first of two tools, the definition that is referred to, the properties of all "
    "variants; `items` of any type; the type that is meant, as `string` for `STRING` or `str`, and to Moonshot where none "
    "is; there each variant has the type that stood beside `anyOf`",
    evidence="OpenAI answers 400: 'array schema missing items' (mark3labs/mcphost 35), 'object schema missing properties' "
    "(spring-projects/spring-ai 4776); Anthropic: 'input_schema does not support oneOf, allOf, or anyOf at the top level' "
    "(anthropics/claude-code 40075), 'It must match JSON Schema draft 2020-12' (Dokploy/mcp 74, kintone/mcp-server 553)",
)
TOOL_NAMES: Final = Mend(
    name="tool_names",
    refused="A declared tool's name that is not in the destination's alphabet, such as `github.create issue`",
    sent="The name with `_` for each other character, alike in definitions, calls, results and `tool_choice`; where another "
    "tool has that name, with a digest behind it. `names` of the answer has each sent name with the tool's own",
    evidence="OpenAI answers 400: 'string does not match pattern' (run-llama/llama_index 16093), Gemini: 'Invalid function "
    "name' (google-gemini/gemini-cli 7869); the kind `tool_names` in destinations/README.md",
)
OF_ALL: Final = (
    UNANSWERED_CALL,
    LATE_RESULT,
    FOREIGN_MEMBERS,
    AS_TEXT,
    LEFT_OUT,
    LOST_MEDIUM,
    FOREIGN_REFERENCE,
    ENDED_REFERENCE,
    UNTAKEN_BY_MODEL,
    SYSTEM_NOTE,
    TOOL_SCHEMA,
    TOOL_NAMES,
)
"""Mends of all forms."""

"""A message's measure: the figures from which its cost can be computed for every model.

A message is measured once, when it is appended, and the measure is stored. So it is small: for plain text, it is a role
and two counts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.chat.calls import arguments_of, compact, functions_called, written_object
from sash.core.counts.measures.attachments import DETAILS, Guess, Image, guess, guess_line, image_size, text_in
from sash.core.counts.measures.media_facts import Medium, media_of
from sash.core.counts.measures.native_parts import NativeParts, measure_native_parts
from sash.core.counts.measures.reasoning import Reasoning, reasoning_of
from sash.core.counts.measures.unpriced import unpriced_tokens
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, FUNCTION, ROLE_INDEX, SYSTEM, TOOL, USER
from sash.core.counts.text import Pair, both, count_text, count_texts, mix_of
from sash.core.counts.text.unicode_scripts import Mix
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.members import has_foreign
from sash.core.providers.messages.references import is_sealed
from sash.core.providers.messages.sharing import restore
from sash.core.providers.openai.chat_mends import (
    GIF,
    MEDIA,
    NAMES,
    SEALED,
    fitting_function,
    fitting_name,
    is_gif,
    oddities,
    told,
    untaken,
)
from sash.core.providers.writing.media_types import as_picture

ZERO: Pair = (0, 0)
Part = tuple[int, int, Mix | None]
"""A part's text: its tokens in both encodings, and its mix."""

_WIDEST = 1_000_000  # pixels; a JSON number has no upper limit
_PLAIN_MEMBERS = 2  # role and content
# Text of this length is not counted a second time: an upper bound is used in place of the second count.
_LONG = 65_536
# Characters at an item's beginning or end that decide how its tokens merge with the list's brackets.
_END = 64


class Extra(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """The parts of a message other than plain text that cost tokens, in both encodings."""

    name: Pair | None = None
    calls: int = 0
    call_names: Pair = ZERO
    call_arguments: Pair = ZERO
    together: Pair = ZERO  # several calls, written as the one call that providers bill
    legacy_call: bool = False
    has_text: bool = True
    listed: Pair = ZERO  # a tool result as an item of the list that answers several calls
    padding: Pair | None = None  # tokens that a blank line after a system text adds, if not 1
    images: tuple[Image, ...] = ()
    estimated: int = 0  # audio, files: a guess
    unpriced: Pair = ZERO  # strings of unknown members
    reasoning: Reasoning | None = None
    opens_list: Pair = ZERO  # tokens added to ``listed`` for the list's first item, and for its last
    closes_list: Pair = ZERO
    heading: Pair = ZERO  # tokens of a heading before a system text, in addition to HEADING_TOKENS
    bare_names: Pair | None = None  # called functions' names without ``functions.``, if different from ``call_names``
    beside: NativeParts | None = None  # native parts, which are sent only to their own provider
    pages: int = 0  # pages of PDFs, which some providers bill
    paged: int = 0  # the part of ``estimated`` for these PDFs
    mix: Mix | None = None  # scripts and digits, for estimates in other vocabularies; None for plain Latin text
    call_objects: Pair | None = None  # ``call_arguments`` as the objects that some providers require, if different
    calls_mix: Mix | None = None  # the mix of the calls' arguments
    parts: tuple[Part, ...] = ()  # the texts of several parts, each of which is estimated by itself
    together_objects: Pair | None = None  # ``together`` with the arguments as objects, if different
    call_compact: Pair | None = None  # a legacy call's arguments as an ordinary call's are billed, if different
    odd: int = 0  # what chat completions refuse in the message (``chat_mends.oddities``)
    unfitted: Pair = ZERO  # tokens that names cost more as they came than as they are sent to OpenAI
    spoken: Pair = ZERO  # the transcript of a spoken reply, which other forms send as its text
    pictured: Pair = ZERO  # lines in place of a result's pictures and files, which chat completions do not take
    heard: int = 0  # the length of sounds (``HEARD_A_SECOND``) whose headers state it
    sounded: int = 0  # the part of ``estimated`` for these sounds
    media: tuple[Medium, ...] = ()  # pictures, files and sounds, in the order of ``enclosed``
    named: Pair = ZERO  # tokens that the name adds to the text where it stands before it, as in forms without names

    @property
    def is_mix(self) -> bool:
        """Whether only ``mix`` is set, which matters for estimates only."""
        return msgspec.structs.replace(self, mix=None) == _PLAIN

    def native_in(self, form: str) -> NativeParts | None:
        """Return the native parts, if they are sent in this format."""
        return self.beside if self.beside is not None and self.beside.format == form else None


_PLAIN = Extra()


class Measure(msgspec.Struct, array_like=True, frozen=True):
    """A message's figures for counting: its role, the tokens of its text in both encodings, and its other parts."""

    role: int
    o200k: int
    cl100k: int
    extra: Extra | None = None


def measure(
    message: Mapping[str, Any],
    *,
    image_sizes: Sequence[tuple[int, int]] = (),
    o200k_alone: bool = False,
    counted: Pair | None = None,
) -> Measure:
    """Return the measure of one chat message.

    ``image_sizes`` are the client's figures for its images in their order: width and height in pixels. An image's own
    header takes precedence. With ``o200k_alone`` the measure is for models that need no other tokens of text
    (``Model.counts_o200k_alone``): a plain text is not counted in cl100k_base, and gets no mix. ``counted`` are the tokens
    of a plain text, if they are known.
    """
    role, said = ROLE_INDEX[message["role"]], message.get("content")
    if len(message) == _PLAIN_MEMBERS and type(said) is str and role in (USER, ASSISTANT):  # as nearly always
        if o200k_alone:
            return Measure(role, counted[0] if counted else count_text(said, "o200k_base"), 0)
        o200k, cl100k = counted or both(said)
        mix = mix_of(said, o200k, cl100k)
        return Measure(role, o200k, cl100k, Extra(mix=mix) if mix else None)
    texts, media, guesses = _content(said, image_sizes, is_read=role in (USER, TOOL))
    texts.append(_string(message.get("refusal")))
    text = "".join(texts)
    counted = both(text)
    objects = [written_object(call) for call in functions_called(message)]
    fields: dict[str, Any] = _named(message, role, text) | media
    if len(message) > _PLAIN_MEMBERS or type(said) is not str:
        unpriced = unpriced_tokens(message)
        fields |= {"unpriced": unpriced} if unpriced != ZERO else {}
        fields |= mended_fields(message, text, counted)
    if role == ASSISTANT:
        if (reasoning := reasoning_of(message)) is not None:
            fields["reasoning"] = reasoning
        fields |= _calls(message, objects, has_text=bool(text or "spoken" in fields))
    elif role == TOOL:
        fields |= listed_tokens(text, counted)
    elif role in (SYSTEM, DEVELOPER):
        fields |= _as_section(text, counted) if len(text) < _LONG else {}
        fields |= {} if text.strip() else {"has_text": False}
    if media or "native" in message or "audio" in message:
        fields |= _enclosed(message, media.get("images", ()), guesses)
    fields |= mixes(text.split("\n\n") if role in (SYSTEM, DEVELOPER) else texts, text, counted)
    if calls_mix := mix_of("".join(objects), *(fields.get("call_objects") or fields.get("call_arguments", ZERO))):
        fields["calls_mix"] = calls_mix
    return Measure(role, *counted, Extra(**fields) if fields else None)


def measure_each(messages: Sequence[Mapping[str, Any]], *, o200k_alone: bool = False) -> list[Measure]:
    """Return the measures of several messages, as ``measure`` does. Plain texts are counted together, which is faster."""
    texts: dict[int, str] = {}
    for place, message in enumerate(messages):
        said = message.get("content")
        if len(message) == _PLAIN_MEMBERS and type(said) is str and message["role"] in ("user", "assistant"):
            texts[place] = said
    said = list(texts.values())
    o200k = count_texts(said, "o200k_base")
    cl100k = [0] * len(said) if o200k_alone else count_texts(said, "cl100k_base")
    counted = dict(zip(texts, zip(o200k, cl100k, strict=True), strict=True))
    return [
        measure(message, o200k_alone=o200k_alone, counted=counted.get(place)) for place, message in enumerate(messages)
    ]


def _enclosed(message: Mapping[str, Any], images: Sequence[Image], guesses: Sequence[Guess]) -> dict[str, Any]:
    """Return the measure's fields of what a message has beside its chat form and its text."""
    own = restore(message) if message.get("native") and not has_foreign(message) else None
    fields: dict[str, Any] = {"beside": measure_native_parts(message, own or ())} if message.get("native") else {}
    media = media_of(message, own, images, guesses)
    return fields | ({"media": media} if media else {})


def mixes(parts: Sequence[str], text: str, counted: Pair) -> dict[str, Any]:
    """Return the measure's fields ``mix`` and ``parts``, for a text and the parts that it was joined from.

    Other forms join the texts of several messages, as parts of one message or as paragraphs of one system text. Each part is
    estimated by itself, so that a joined message is never dearer than the messages that it was made of.
    """
    mix = mix_of(text, *counted)
    fields: dict[str, Any] = {"mix": mix} if mix else {}
    given = [part for part in parts if part]
    if given and given != [text]:
        fields["parts"] = tuple((*pair, mix_of(part, *pair)) for part in given for pair in (both(part),))
    return fields


_HEADING = "# Instructions\n\n"
HEADING_TOKENS = 3


def _as_section(text: str, counted: Pair) -> dict[str, Pair]:
    """Return the extra tokens of a system text that sections follow: newlines at its ends merge with those around it."""
    fields = {}
    padding = _difference(both(text + "\n\n"), counted)
    if padding != (1, 1):
        fields["padding"] = padding
    if text[:1].isspace():
        beginning = text[:_END]
        headed = _difference(both(_HEADING + beginning), both(beginning))
        fields["heading"] = _difference(headed, (HEADING_TOKENS, HEADING_TOKENS))
    return fields


def _difference(a: Pair, b: Pair) -> Pair:
    return a[0] - b[0], a[1] - b[1]


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _named(message: Mapping[str, Any], role: int, text: str) -> dict[str, Any]:
    """Tokens of a participant's name, and those that it adds to the text where it stands before it. A tool result's name is
    free; a name equal to the role costs one less (5 bills)."""
    fit = fitting_function if role == FUNCTION else fitting_name
    name = fit(_string(message.get("name")))
    if not name or role == TOOL:
        return {}
    counted = both(name)
    fields = {"name": _difference(counted, (1, 1)) if name == message["role"] else counted}
    if role in (SYSTEM, DEVELOPER, USER):
        fields["named"] = _difference(both(f"{message['name']}: {text[:_END]}"), both(text[:_END]))
    return fields


# ---- content


def _content(
    content: Any, sizes: Sequence[tuple[int, int]], *, is_read: bool
) -> tuple[list[str], dict[str, Any], list[Guess]]:
    """Return the texts of a string or list content, the measure's fields of its images and other parts, and the guesses.

    Of a user or a tool (``is_read``), what a provider does not take is a line.
    """
    if isinstance(content, str):
        return [content], {}, []
    texts: list[str] = []
    images: list[Image] = []
    guesses: list[Guess] = []
    lines: list[Guess] = []
    for part in map(as_picture, content or ()):
        if refused := untaken(part) if is_read else 0:
            lines.append(guess_line(media_line(part)))
        match part.get("type"):
            case "text" | "refusal" as kind:
                texts.append(_string(part.get(kind)))
            case "image_url":
                given = sizes[len(images)] if len(images) < len(sizes) else None
                width, height, detail = _image(part.get("image_url"), given)
                images.append((width, height, (refused or detail) | (GIF if is_gif(part) else 0)))
            case _:
                texts.append(text_in(part))
                guesses.append(guess(part))
    fields: dict[str, Any] = {"images": tuple(images)} if images else {}
    if estimates := [*guesses, *lines]:
        fields |= zip(("estimated", *Guess._fields[1:]), map(sum, zip(*estimates, strict=True)), strict=True)
    return texts, fields, guesses


def _image(value: Any, given: tuple[int, int] | None) -> Image:
    fields = value if isinstance(value, Mapping) else {"url": value}
    size = image_size(_string(fields.get("url"))) or given or _stated_size(fields) or (0, 0)
    return *size, DETAILS.get(_string(fields.get("detail")), 0)


def _stated_size(fields: Mapping[str, Any]) -> tuple[int, int] | None:
    width, height = fields.get("width"), fields.get("height")
    if not (isinstance(width, int | float) and isinstance(height, int | float) and width >= 1 and height >= 1):
        return None
    return int(min(width, _WIDEST)), int(min(height, _WIDEST))


# ---- tool calls and results


_PLACES: Final = (
    ("listed",),
    ("listed", "opens_list"),
    ("listed", "closes_list"),
    ("listed", "opens_list", "closes_list"),
)
"""What an item of a list costs in its middle, at its beginning, at its end, and alone in it."""


def mended_fields(message: Mapping[str, Any], text: str, counted: Pair) -> dict[str, Any]:
    """The measure's fields of a message that is not sent as it came. Names are measured as OpenAI gets them."""
    odd = oddities(message) | (SEALED if is_sealed(message) else 0)
    fields: dict[str, Any] = {"odd": odd} if odd else {}
    if odd & NAMES:
        came = [_string(message.get("name")), *(_string(call.get("name")) for call in functions_called(message))]
        fields["unfitted"] = _unfitted([name for name in came if name])
    match message:
        case {"role": "assistant", "audio": {"transcript": str(transcript)}} if transcript and not text:
            fields["spoken"] = both(transcript)
            fields |= mixes([], transcript, fields["spoken"])
    if odd & MEDIA:
        fields["pictured"] = _pictured(told(dict(message))["content"], text, counted)
    return fields


def _unfitted(names: Sequence[str]) -> Pair:
    """The most that the names cost above those that fit, wherever a call's name is written twice."""
    found = ZERO
    for name in names:
        for fitted in {fitting_name(name), fitting_function(name)}:
            more = _difference(both(name), both(fitted))
            more_called = _difference(recipient(name), recipient(fitted))
            o200k, cl100k = (max(0, a, b) for a, b in zip(more, more_called, strict=True))
            found = found[0] + 2 * o200k, found[1] + 2 * cl100k
    return found


def _pictured(content: str, text: str, counted: Pair) -> Pair:
    """The most that a result has more with lines in place of its pictures, in tokens: alone, or at any place of a list."""
    alone = both(content)
    told, bare = (listed_tokens(each, pair) for each, pair in ((content, alone), (text, counted)))
    more = [_difference(alone, counted), *(_difference(_sum(told, names), _sum(bare, names)) for names in _PLACES)]
    o200k, cl100k = (max(0, *each) for each in zip(*more, strict=True))
    return o200k, cl100k


def _sum(pairs: Mapping[str, Pair], names: Sequence[str]) -> Pair:
    return _total([pairs.get(name, ZERO) for name in names])


def _calls(message: Mapping[str, Any], objects: Sequence[str], *, has_text: bool) -> dict[str, Any]:
    """The tokens of a message's calls. ``objects`` are their arguments as the objects that some providers require."""
    calls, legacy = functions_called(message), message.get("function_call")
    if not calls:
        return {}
    names = [fitting_function(_string(call.get("name"))) for call in calls]
    # Only the legacy function_call is billed as it was sent.
    arguments = [arguments_of(call) if call is legacy else compact(arguments_of(call)) for call in calls]
    fields: dict[str, Any] = {
        "calls": len(calls),
        "call_names": _total(map(recipient, names)),
        "call_arguments": _total(map(both, arguments)),
    }
    if objects != arguments:
        fields["call_objects"] = _total(map(both, objects))
    if (written := [compact(each) for each in arguments]) != arguments:
        fields["call_compact"] = _total(map(both, written))
    bare = _total(map(both, names))
    if bare != fields["call_names"]:
        fields["bare_names"] = bare
    if len(calls) > 1:
        fields["together"] = _together_tokens(names, arguments, fields["call_arguments"])
    if len(calls) > 1 and objects != arguments:
        fields["together_objects"] = _together_tokens(names, objects, fields["call_objects"])
    return fields | {"legacy_call": isinstance(legacy, Mapping), "has_text": has_text}


def recipient(name: str) -> Pair:
    """Return the tokens of a called function's name after ``functions.``, whose point may merge with the name."""
    return _difference(both(f"functions.{name}"), (1, 1))


def _total(counts: Iterable[Pair]) -> Pair:
    o200k, cl100k = zip(*counts, strict=True)
    return sum(o200k), sum(cl100k)


def _together_tokens(names: Sequence[str], arguments: Sequence[str], counted: Pair) -> Pair:
    if sum(map(len, arguments)) < _LONG:
        return both(_together(names, arguments))
    around = both(_together(names, ["{}"] * len(names)))
    return around[0] + counted[0] + len(names), around[1] + counted[1] + len(names)


def _together(names: Sequence[str], arguments: Sequence[str]) -> str:
    """Return the arguments of ``multi_tool_use.parallel``, the single call as which several calls are billed."""
    uses = (
        f'{{"recipient_name":"functions.{name}","parameters":{argument}}}'
        for name, argument in zip(names, arguments, strict=True)
    )
    return f'{{"tool_uses":[{",".join(uses)}]}}'


def listed_tokens(text: str, counted: Pair) -> dict[str, Pair]:
    """Return a result's tokens as an item of a list, and the tokens to add if it is the first or the last item.

    A space never merges with the comma before it, so the items' tokens sum to the list's. ``counted`` are the tokens of
    the result's text.
    """
    item = _listed(text)
    longer = len(item) + 2 - len(text)  # each character of an escape is at most one token
    if len(text) < _LONG or longer < 0 or longer * 50 > len(text):
        listed = both(f" {item},")
    else:
        listed = counted[0] + longer, counted[1] + longer
    ends, between = item, listed
    if len(item) > 2 * _END:
        ends = item[:_END] + item[-_END:]
        between = both(f" {ends},")
    opens = _difference(both(f"[{ends},"), between)
    closes = _difference(both(f" {ends}]"), between)
    fields = {"listed": listed, "opens_list": opens, "closes_list": closes}
    return {name: tokens for name, tokens in fields.items() if tokens != ZERO}


def _listed(text: str) -> str:
    """Return a result as an item of the JSON list that answers several calls: ASCII, with objects and lists parsed."""
    try:
        value = json.loads(text)
        return json.dumps(value if isinstance(value, dict | list) else text)
    except (ValueError, RecursionError):
        return json.dumps(text)

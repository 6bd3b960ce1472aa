"""The blind spots of the counts: each dimension of a request, with the bills that have shown it.

::

    dimension    member NAME[: value] | role NAME | part TYPE | item TYPE | tool TYPE | picture …
    stands       "equal" where every bill was predicted to the token, "a guess" where none was, "no bill" without any
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sash.core.providers import CHAT, PROVIDERS
from sash_tools.bills.bill import Bill
from sash_tools.sheet import Sheet

_LONGEST_VALUE: Final = 24
_NOT_COUNTED: Final = frozenset(
    {
        *("model", "stream", "stream_options", "max_tokens", "max_output_tokens", "max_completion_tokens", "metadata"),
        *(
            "temperature",
            "top_p",
            "top_k",
            "n",
            "seed",
            "stop",
            "stop_sequences",
            "user",
            "store",
            "include",
            "logprobs",
        ),
        *(
            "presence_penalty",
            "frequency_penalty",
            "logit_bias",
            "top_logprobs",
            "prompt_cache_key",
            "safety_identifier",
        ),
        *("service_tier", "generationConfig", "generation_config", "inferenceConfig", "safetySettings", "modelId"),
        *("tools", "functions", "toolConfig", "options", "keep_alive", "truncation", "usage", "provider"),
    }
)
"""Members that cost nothing by themselves, and those whose parts have rows of their own."""
_VALUED: Final = frozenset({"tool_choice", "parallel_tool_calls", "verbosity", "function_call", "truncation"})
"""Members of which each value is a dimension."""
_OF_MESSAGES: Final = ("name", "tool_calls", "reasoning_content", "images", "phase", "audio")
NEVER_BILLED: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("tool_choice: allowed_tools", "picture of detail low", "picture of detail high", "part refusal"),
    "responses": (
        *("item computer_call", "item computer_call_output", "item shell_call", "item apply_patch_call"),
        *("part input_audio", "part refusal", "member conversation", "member prompt", "member previous_response_id"),
    ),
    "anthropic": ("member container", "part container_upload"),
    "gemini": ("member cachedContent",),
    "converse": ("member promptVariables", "part video", "part guardContent"),
    "interactions": ("item function_result", "part audio", "part video", "part document"),
    "ollama": ("member images",),
}
"""Dimensions that a provider's documents have, by format: they are listed also without a bill."""


def dimensions_of(form: str, request: Mapping[str, Any]) -> set[str]:
    """Return the dimensions of a request: the names of what is in it, except its plain texts."""
    shape = PROVIDERS[form].shape.messages
    found = {_member(name, value) for name, value in request.items() if _is_told(name, value, shape)}
    found |= {f"tool {kind}" for kind in _tools(request)}
    turns = request.get(shape)
    for turn in turns if isinstance(turns, list) else ():
        if isinstance(turn, dict):
            found |= set(_in_turn(turn))
    return found


def _is_told(name: str, value: Any, messages: str) -> bool:
    return name != messages and name not in _NOT_COUNTED and value not in (None, [], {}, "")


def _member(name: str, value: Any) -> str:
    """A member, with its value if each value is a dimension."""
    if name not in _VALUED:
        return f"member {name}"
    kind = value.get("type") or value.get("mode") if isinstance(value, Mapping) else value
    return f"{name}: {str(kind if kind is not None else 'a function').lower()[:_LONGEST_VALUE]}"


def _tools(request: Mapping[str, Any]) -> Iterator[str]:
    """The types of tools. Those of Gemini and of Converse are members."""
    tools = request.get("tools") or (request.get("toolConfig") or {}).get("tools") or ()
    for tool in tools if isinstance(tools, list) else (tools,):
        if isinstance(tool, Mapping):
            yield str(tool.get("type")) if "type" in tool else _first(tool) or "function"


def _first(tool: Mapping[str, Any]) -> str:
    """The kind of a tool without a type: its only member that has a value, where that is an object or a list."""
    return next((name for name, value in tool.items() if isinstance(value, dict | list) and "schema" not in name), "")


def _in_turn(turn: Mapping[str, Any]) -> Iterator[str]:
    if role := turn.get("role"):
        yield f"role {role}"
    if turn.get("type") not in (None, "message"):
        yield f"item {turn['type']}"
    yield from (f"member {name} of a message" for name in _OF_MESSAGES if turn.get(name))
    parts = turn.get("content") or turn.get("parts") or turn.get("output") or ()
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, Mapping):
            yield from _in_part(part)


def _in_part(part: Mapping[str, Any]) -> Iterator[str]:
    kind = str(part.get("type") or _first(part) or next(iter(part), "text"))
    if kind in ("text", "input_text", "output_text"):
        return
    yield f"part {kind}"
    image = part.get("image_url")
    detail = (image if isinstance(image, Mapping) else part).get("detail")
    if detail:
        yield f"picture of detail {detail}"
    url = image.get("url") if isinstance(image, Mapping) else image
    if isinstance(url, str) and not url.startswith("data:"):
        yield "picture behind a link"


def blind_spots(bills: Iterable[Bill]) -> Sheet:
    """Return a row for each dimension of each format: its bills, those equal and short, the worst, and how it stands."""
    groups: dict[tuple[str, str], list[Bill]] = {
        (form, dimension): [] for form, known in NEVER_BILLED.items() for dimension in known
    }
    for bill in bills:
        for dimension in dimensions_of(bill.row.form, bill.request):
            groups.setdefault((bill.row.form, dimension), []).append(bill)
    ordered = sorted(groups.items(), key=lambda group: (_place(group[0][0]), group[0][1]))
    rows = [(form, dimension, *_figures(own)) for (form, dimension), own in ordered]
    return Sheet("Blind spots", ("form", "dimension", "#bills", "#equal", "#short", "#worst", "stands"), rows)


def _place(form: str) -> int:
    return [CHAT, *PROVIDERS].index(form)


def _figures(bills: list[Bill]) -> tuple[str, ...]:
    errors = [bill.error for bill in bills]
    equal, short = errors.count(0), sum(error < 0 for error in errors)
    if not bills:
        return "0", "0", "0", "", "no bill"
    stands = "equal" if equal == len(bills) else "" if equal else "a guess"
    worst = min(bills, key=lambda bill: min(bill.ratio, 1 / max(bill.ratio, 1e-9)))
    return str(len(bills)), str(equal), str(short), f"{worst.error:+d} of {worst.billed}", stands

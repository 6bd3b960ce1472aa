"""Make the messages of OpenAI-compatible servers regular, where the form allows only one way.

==============================================  ================================  ==================================
irregular                                       made regular                      seen at
==============================================  ================================  ==================================
``tool_calls`` empty or null                    left out                          vLLM (vllm-project/vllm #44104)
a call without ``type``                         ``function``, or ``custom``       Mistral, Ollama
``arguments`` or ``input`` that is no text      its JSON text                     Mistral, Ollama, small models
``arguments`` null, or a call with only a name  ``{}``                            vLLM (#12937)
``arguments`` as an empty list                  ``{}``                            PHP's programs
a call with an empty name, or with null         ``unnamed_tool``                  cut streams, Continue, StepFun
an image's URL as ``image_url``                 ``{"url": …}``                    Mistral
a call without ``id``, or with an empty one     one from its place and words      Ollama, llama.cpp, Gemini's copy
``id`` or ``tool_call_id`` that is a number     its digits                        small servers
``thinking`` and ``reference`` chunks           ``reasoning_content``, and        Mistral
in an assistant's content                       ``references``, which stay here
a picture in an assistant's content             in ``images``, which stay here    image models
``function_call`` that repeats a tool call      left out                          FastChat, LangChain
a result without ``tool_call_id``               the only open call's              Z.ai, Ollama
a result that is a number, an object, or a      its JSON text                     Ollama, frameworks
list without parts
a text in a list of parts                       ``{"type": "text", …}``           LangChain
MCP's picture, sound or resource in a result    chat's part                       MCP's SDKs
``content`` null or empty, of other roles       the empty string                  Python's ``None``
a result without ``content``                    the empty string                  JavaScript's ``undefined``
reasoning that is null                          left out                          vLLM
a tool without ``type``, or without             ``{"type": …, "function": {…}}``  Responses' tools, sent to chat
``function`` around its members; Claude's, MCP's
a tool choice of Responses or Claude            a word, or ``{"type": …, …}``     flat in frameworks
==============================================  ================================  ==================================

Whatever else is wrong stays, so that validation names it.
"""

from hashlib import blake2b
from typing import Any, Final

import msgspec

from sash.core.chat.mcp_content import of_mcp
from sash.core.chat.result_values import returned_content

Object = dict[str, Any]

_CALLING: Final = frozenset({"tool_calls", "function_call"})
_REASONING: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
_IRREGULAR: Final = _CALLING.union(_REASONING)
_TOLD: Final = frozenset({"system", "developer", "user", "tool"})
"""Roles whose content is never null. An assistant's may be, beside calls; a function's always."""
_OF_RESULTS: Final = frozenset({"role", "tool_call_id", "name"})
_NO_TYPE: Final = (None, "")
UNNAMED: Final = "unnamed_tool"
"""The name that a call gets where it came without the name of its tool."""
MADE: Final = "call_made_"
"""The beginning of an id that is made here."""
_DIGEST_BYTES: Final = 8
_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema")
"""Names of a function's parameters in chat completions and Responses, in Anthropic's tools and in MCP's."""
_FUNCTION_TOOL: Final = frozenset({"name", "description", "strict", *_SCHEMAS})
_MCPS_OWN: Final = frozenset({"title", "outputSchema", "annotations", "icons", "execution", "_meta"})
"""Members of MCP's tools that no provider takes."""
_MCP_TOOL: Final = _MCPS_OWN | {"name", "description", "inputSchema"}
_CUSTOM_TOOL: Final = frozenset({"name", "description", "format"})
_CHOICE: Final = frozenset({"type", "name", "disable_parallel_tool_use", "function", "custom"})
_AROUND: Final = frozenset({"type", "cache_control"})


def regular(message: Object) -> Object:
    """Return a message with regular images, calls and content; a regular message as it is."""
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        message = _result(message)
        content = message.get("content")
    if isinstance(content, list) and any(map(_is_bare, content)):
        content = [*map(_part, content)]
        message = {**message, "content": content}
    if role != "assistant" and isinstance(role, str):
        return _with_content(message) if role in _TOLD else message
    if role == "assistant" and isinstance(content, list) and any(map(_is_chunk, content)):
        message = _without_chunks(message)
    if role != "assistant" or _IRREGULAR.isdisjoint(message):
        return message
    changed = {name: value for name, value in message.items() if value is not None or name not in _REASONING}
    match message:
        case {"tool_calls": None | []}:
            del changed["tool_calls"]
        case {"tool_calls": list(calls)}:
            changed["tool_calls"] = [_call(call, place) for place, call in enumerate(calls)]
    if "function_call" in message:
        changed["function_call"] = _function(message["function_call"])
    match changed:
        case {"function_call": dict(legacy), "tool_calls": [{"function": dict(called)}]} if _is_same(legacy, called):
            del changed["function_call"]
    return changed


def _is_same(legacy: Object, called: Object) -> bool:
    return all(legacy.get(name) == called.get(name) for name in ("name", "arguments"))


def _is_chunk(part: Any) -> bool:
    """Whether a part is a picture, or one of Mistral's chunks: a list of reasoning, or references.

    Claude's thinking has the same type, but its reasoning is a string.
    """
    match part:
        case {"type": "thinking", "thinking": list()} | {"type": "reference", "reference_ids": list()}:
            return True
        case {"type": "image_url", "image_url": {"url": str()}}:
            return True
    return False


def _without_chunks(message: Object) -> Object:
    """The message with its chunks where OpenRouter has them: reasoning in ``reasoning_content``, references and pictures in
    members of their own."""
    chunks = [part for part in message["content"] if _is_chunk(part)]
    said = [part for part in message["content"] if not _is_chunk(part)]
    inner = (each for chunk in chunks if chunk["type"] == "thinking" for each in chunk["thinking"])
    reasoning = "".join(str(each.get("text") or "") for each in inner if isinstance(each, dict))
    beside: Object = {"reasoning_content": reasoning} if reasoning else {}
    for name, kind in (("references", "reference"), ("images", "image_url")):
        if found := [chunk for chunk in chunks if chunk["type"] == kind]:
            beside[name] = found
    return {**message, "content": said or "", **{name: each for name, each in beside.items() if name not in message}}


def _result(message: Object) -> Object:
    """The result with its content as text or parts, and its call's id as text."""
    content = message.get("content")
    if not isinstance(content, str) and content is not None:
        said = returned_content(content)
        message = {**message, "content": [*map(of_mcp, said)] if isinstance(said, list) else said}
    if _is_number(identity := message.get("tool_call_id")):
        message = {**message, "tool_call_id": str(identity)}
    return message


def _is_number(identity: Any) -> bool:
    return isinstance(identity, int) and not isinstance(identity, bool)


def _is_bare_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "image_url" and isinstance(part.get("image_url"), str)


def _is_bare(part: Any) -> bool:
    """Whether a part is a text without an object around it, or a picture whose address has none."""
    return isinstance(part, str) or _is_bare_image(part)


def _part(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {**part, "image_url": {"url": part["image_url"]}} if _is_bare_image(part) else part


def _with_content(message: Object) -> Object:
    """The message with the empty string as content, where it has none."""
    is_empty = (
        message["content"] is None or message["content"] == [] if "content" in message else _is_bare_result(message)
    )
    return {**message, "content": ""} if is_empty else message


def _is_bare_result(message: Object) -> bool:
    return message.get("role") == "tool" and message.keys() <= _OF_RESULTS


def _call(call: Any, place: int) -> Any:
    if not isinstance(call, dict):
        return call
    kinds = _bodies(call)
    if call.get("type") in _NO_TYPE and len(kinds) == 1:
        call = {**call, "type": kinds[0]}
    is_function = call.get("type") == "function" and "function" in call
    if is_function:
        call = {**call, "function": _function(call["function"])}
    elif isinstance(custom := call.get("custom"), dict):
        call = {**call, "custom": _custom(custom)}
    return _identified(call, place) if kinds else call


def _identified(call: Object, place: int) -> Object:
    """The call with an id. One that is made for it is the same whenever the same reply is sent again."""
    identity = call.get("id")
    if _is_number(identity):
        return {**call, "id": str(identity)}
    if identity not in (None, ""):
        return call
    said = [place, call.get("type"), call.get("function"), call.get("custom")]
    digest = blake2b(msgspec.json.encode(said, order="deterministic"), digest_size=_DIGEST_BYTES).hexdigest()
    made = f"{MADE}{digest}"
    return {**call, "id": made} if "id" in call else {"id": made, **call}


def _bodies(value: Object) -> list[str]:
    """Return the members in which a call or a tool says what it is; a regular one has one."""
    return [kind for kind in ("function", "custom") if isinstance(value.get(kind), dict)]


def is_blank(name: Any) -> bool:
    """Return whether a called tool has no name that a provider takes (continuedev/continue 11645, openai/codex 7094)."""
    return name is None or (isinstance(name, str) and not name.strip())


def _custom(body: Object) -> Object:
    """Return a called custom tool with its input as text."""
    if is_blank(body.get("name", UNNAMED)):
        body = {**body, "name": UNNAMED}
    match body:
        case {"input": None | []}:
            return {**body, "input": ""}
        case {"input": given} if not isinstance(given, str):
            return {**body, "input": msgspec.json.encode(given).decode()}
    return body


def _function(body: Any) -> Any:
    """Return a called function with its arguments as text. Beside an unknown member, missing arguments stay missing."""
    if isinstance(body, dict) and is_blank(body.get("name", UNNAMED)):
        body = {**body, "name": UNNAMED}
    match body:
        case {"arguments": None | []}:  # PHP writes an empty object as a list
            return {**body, "arguments": "{}"}
        case {"arguments": arguments} if not isinstance(arguments, str):
            return {**body, "arguments": msgspec.json.encode(arguments).decode()}
        case {"name": str()} if len(body) == 1:
            return {**body, "arguments": "{}"}
    return body


def regular_tool(tool: Any) -> Any:  # noqa: PLR0911 - one line a form
    """Return a tool's definition as chat completions have it: its type, and all else in a member named like the type.

    A tool with other members than those of one form stays as it is.
    """
    if not isinstance(tool, dict):
        return tool  # validation says so
    given, kinds = tool.get("type"), _bodies(tool)
    if kinds:
        return {**tool, "type": kinds[0]} if given in _NO_TYPE and len(kinds) == 1 else tool
    match tool:
        case {"name": str()} if given in ("function", *_NO_TYPE) and tool.keys() <= _FUNCTION_TOOL | _AROUND:
            return _wrapped(_with_parameters(tool), "function")
        case {"name": str(), "inputSchema": dict()} if tool.keys() <= _MCP_TOOL | _AROUND:
            return _wrapped(_with_parameters({name: tool[name] for name in tool if name not in _MCPS_OWN}), "function")
        case {"type": "custom", "name": str(), "input_schema": dict()} if tool.keys() <= _FUNCTION_TOOL | _AROUND:
            return _wrapped(_with_parameters(tool), "function")
        case {"type": "custom", "name": str()} if tool.keys() <= _CUSTOM_TOOL | _AROUND:
            return _wrapped(_with_chat_grammar(tool), "custom")
    return tool


def regular_choice(choice: Any) -> Any:
    """Return a choice among tools as chat completions have it; also one of Responses, or of Anthropic.

    A merge patch leaves members of the choice before it; the name and the type that were given last count.
    """
    match choice:
        case "any" | {"type": "any"}:
            return "required"
        case {"type": "auto" | "none" | "required" as word}:
            return word
        case {"type": "custom", "name": str(name)} if choice.keys() <= _CHOICE:
            return {"type": "custom", "custom": {"name": name}}
        case {"type": "function" | "tool", "name": str(name)} if choice.keys() <= _CHOICE:
            return {"type": "function", "function": {"name": name}}
        case {"type": "allowed_tools", "mode": mode, "tools": list(tools)}:
            return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list(map(regular_choice, tools))}}
    return choice


def _with_chat_grammar(tool: Object) -> Object:
    match tool.get("format"):
        case {"type": "grammar", "syntax": syntax, "definition": definition}:
            return {**tool, "format": {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}}
    return tool


def _with_parameters(tool: Object) -> Object:
    schemas = [name for name in _SCHEMAS if name in tool]
    if len(schemas) != 1 or schemas == ["parameters"]:
        return tool
    return {"parameters" if name == schemas[0] else name: value for name, value in tool.items()}


def _wrapped(tool: Object, kind: str) -> Object:
    inner = {name: value for name, value in tool.items() if name not in _AROUND}
    around = {name: value for name, value in tool.items() if name in _AROUND and name != "type"}
    return {"type": kind, kind: inner, **around}

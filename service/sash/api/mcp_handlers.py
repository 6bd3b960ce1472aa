"""POST /mcp: the history tools over the Model Context Protocol, for one conversation or for an owner's conversations.

The official package speaks the protocol (streamable HTTP without sessions, one JSON answer a request). A server of its own
is made for each request, so nothing is kept between requests, and keys, tenants and limits hold as for any other one.
"""

import asyncio
from typing import Annotated, Any, NamedTuple

import msgspec
from litestar import Response, post

from sash import __version__
from sash.api.context import Context
from sash.api.incoming import Incoming
from sash.api.openapi.operation import documented
from sash.api.tool_handlers import AnswerTokens, counted_by
from sash.core.chat.arguments import ProviderObject
from sash.core.chat.half_pairs import with_whole_pairs
from sash.core.chat.json_bodies import decode_json
from sash.core.chat.messages import Id, OwnerId
from sash.core.law.fixed_parts.history_tools import NAMES, history_tools
from sash.core.law.records.parameters import AgentView, Name
from sash.extras import how_to_install
from sash.problems import BadRequest, Problem
from sash.windows.tool_answers import NOT_ANSWERED, ToolScope


class McpQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What the tools read: one conversation, or all conversations of an owner."""

    conversation_id: Annotated[Id | None, msgspec.Meta(description="The conversation that the tools read.")] = None
    owner: Annotated[OwnerId | None, msgspec.Meta(description="The owner whose conversations the tools read.")] = None
    max_tokens: AnswerTokens = 2000
    model: Annotated[
        Name | None, msgspec.Meta(description="The model that counts the answers' tokens; by default GPT-4o.")
    ] = None
    view: AgentView = None


@post("/mcp", operation_id="answerMcp", status_code=200)
@documented("Serve the history tools over MCP", "windows", query=McpQuery, takes=ProviderObject, gives=ProviderObject)
async def answer_mcp(request: Incoming) -> Response[bytes]:
    """The Model Context Protocol (streamable HTTP, without sessions), with the tools `history_search` and `history_read`.

    Give `conversation_id` or `owner`. The API key is sent as everywhere: `Authorization: Bearer`.
    """
    context, wanted = request.context, request.query(McpQuery)
    if (wanted.conversation_id is None) == (wanted.owner is None):
        raise BadRequest.at("#/query", "Give conversation_id or owner, one of the two")
    body = with_whole_pairs(await request.read_body())
    head = decode_json(body, _head)
    if head.jsonrpc != "2.0":
        raise BadRequest.at("#/jsonrpc", "Send a request of the Model Context Protocol, which has jsonrpc 2.0")
    try:
        package = await asyncio.to_thread(_package)
    except ImportError:
        return Response(_not_here(head.id), media_type="application/json")
    scope = ToolScope(request.tenant, wanted.conversation_id, wanted.owner, wanted.view)
    server = _server(package, context, wanted, scope)
    return await _answered(package.Manager(server, json_response=True, stateless=True), request, body)


class _Head(msgspec.Struct):
    jsonrpc: Any = None
    id: Any = None


def _not_here(identity: Any) -> bytes:
    """The protocol's error without the package ``mcp``: its clients show that, and of a 404 its number alone."""
    error = {"code": -32603, "message": f"MCP is not served here: {how_to_install('mcp')}."}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": identity, "error": error})


_head = msgspec.json.Decoder(_Head)


class _Package(NamedTuple):
    """The parts of the package ``mcp`` that are used."""

    types: Any
    Server: Any
    Manager: Any


def _package() -> _Package:
    """The package. It is imported when it is first needed, as that takes half a second. Raises ImportError without it."""
    from mcp import types  # noqa: PLC0415
    from mcp.server.lowlevel import Server  # noqa: PLC0415
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415

    return _Package(types, Server, StreamableHTTPSessionManager)


def _server(package: _Package, context: Context, wanted: McpQuery, scope: ToolScope) -> Any:
    """A server with the two tools."""
    types = package.types
    model = counted_by(context, wanted.model)

    async def tools(_context: Any, _params: Any) -> Any:
        return types.ListToolsResult(
            tools=[
                types.Tool(name=each["name"], description=each["description"], input_schema=each["parameters"])
                for each in history_tools(of_owner=scope.owner is not None)
            ]
        )

    async def call(_context: Any, params: Any) -> Any:
        if params.name not in NAMES:
            return result(f"There is no tool {params.name[:64]}.", is_error=True)
        try:
            answers, arguments = context.recall.answers, params.arguments or {}
            text, tokens = await answers.answer(
                scope, params.name, arguments, model=model, max_tokens=wanted.max_tokens
            )
        except Problem as problem:
            return result(problem.detail, is_error=True)
        context.watching.metrics.answered_tool(params.name, "mcp", tokens)
        return result(text, is_error=text.startswith(NOT_ANSWERED))

    def result(text: str, *, is_error: bool = False) -> Any:
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    return package.Server("sash", version=__version__, on_list_tools=tools, on_call_tool=call)


async def _answered(manager: Any, request: Incoming, body: bytes) -> Response[bytes]:
    """The protocol's answer to one request."""
    parts: list[bytes] = []
    start: dict[str, Any] = {}

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            parts.append(message.get("body", b""))

    async with manager.run():
        await manager.handle_request(request.scope, receive, send)
    return Response(b"".join(parts), status_code=start["status"], media_type="application/json")

"""The OpenAPI document, a page for trying the API, a page for each problem type, and the client for TypeScript."""

import re
from html import escape
from importlib.resources import files
from typing import Annotated, Any

import msgspec
from litestar import Response, get
from litestar.params import FromPath
from msgspec import Meta

from sash.api.incoming import Incoming
from sash.api.openapi import document
from sash.api.openapi.faults import meaning
from sash.api.openapi.operation import documented
from sash.api.page_links import PAGE_OF
from sash.api.schemas import ProblemMeaning
from sash.core.providers import PROVIDERS
from sash.operations.dashboard import page_of
from sash.operations.pages import index, page, runbook
from sash.problems import NotFound, problem_types
from sash.processor import PROCESSOR

_PAGE = page_of(
    files("sash.api").joinpath("docs.html").read_bytes().replace(b"/*PAGES*/", msgspec.json.encode(PAGE_OF) + b";")
)
_FORMATS = " | ".join(f'"{name}"' for name in PROVIDERS)
TYPESCRIPT_CLIENT = (
    files("sash_client")
    .joinpath("ts", "sash.ts")
    .read_bytes()
    .replace(b"type Format = string;", f"type Format = {_FORMATS};".encode(), 1)
)
"""The client with the forms that this service knows."""
_PROBLEMS = {kind.slug: kind for kind in problem_types()}


@get("/openapi.json", operation_id="getOpenapi", sync_to_thread=False)
@documented(
    "Read this document",
    "operations",
    gives=Annotated[dict[str, Any], Meta(title="OpenAPIDocument", description="An OpenAPI 3.1 document.")],
)
def get_openapi(request: Incoming) -> Response[bytes]:
    """The API as an OpenAPI 3.1 document."""
    return Response(document(request.app.state.routes), headers={"Cache-Control": "max-age=300"})


class Addresses(msgspec.Struct, frozen=True):
    """The paths to begin with."""

    docs: str = "/docs"
    pages: str = "/docs/pages"
    dashboard: str = "/dashboard"
    openapi: str = "/openapi.json"
    ready: str = "/readyz"


_ADDRESSES = (
    ("docs", "every operation, with a form to try it"),
    ("docs/pages", "the project's pages: frameworks, providers, tasks, running it, with a search"),
    ("dashboard", "windows, tokens and the store, for people"),
    ("openapi.json", "the contract, for generators of clients"),
    ("readyz", "whether the service may take traffic"),
)


@get("/", operation_id="getRoot", sync_to_thread=False)
@documented(
    "Where to begin", "operations", gives=Addresses, gives_types=("application/json", "text/html"), is_page=True
)
def get_root(request: Incoming) -> Response[bytes]:
    """The addresses to begin with, as JSON, or as a page for browsers."""
    if "text/html" in request.headers.get("accept", ""):
        return Response(_ROOT, headers={**_PAGE.headers, "Vary": "Accept"}, media_type="text/html")
    return Response(msgspec.json.encode(Addresses()), headers={"Vary": "Accept"})


_ROOT = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>Sash</title>"
    "<h1>Sash</h1><p>Stores chat conversations, and returns the messages to send to the model.</p><ul>"
    + "".join(f"<li><a href={path}>/{path}</a>: {what}" for path, what in _ADDRESSES)
    + "</ul></html>"
).encode()


@get("/docs", operation_id="getDocs", sync_to_thread=False)
@documented("A page to try the API", "operations", gives=str, gives_types=("text/html",))
def get_docs() -> Response[bytes]:
    """A page with a form for every operation. It sends requests to this service only."""
    return Response(_PAGE.body, headers=_PAGE.headers, media_type="text/html")


class PagesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What is searched for."""

    q: Annotated[
        Annotated[str, Meta(min_length=1, max_length=1000)] | None, Meta(description="Words of a page; else all pages.")
    ] = None


@get("/docs/pages", operation_id="getPages")
@documented(
    "The project's pages",
    "operations",
    query=PagesQuery,
    gives=str,
    gives_types=("text/html",),
    is_page=True,
    errors=(400,),
)
async def get_pages(request: Incoming) -> Response[bytes]:
    """The list of the project's pages, by group, or those that have all words of ``q``."""
    served = await PROCESSOR.run(index, request.query(PagesQuery).q or "")
    return Response(served.body, headers=served.headers, media_type="text/html")


@get("/docs/pages/{page_name:str}", operation_id="getPage")
@documented("One of the project's pages", "operations", gives=str, gives_types=("text/html",), is_page=True)
async def get_page(page_name: FromPath[str]) -> Response[bytes]:
    """A page of the project: a framework, a provider, a task, an alert. It needs no other host."""
    served = await PROCESSOR.run(page, page_name)
    if served is None:
        raise NotFound("There is no page of this name: GET /docs/pages lists them.")
    return Response(served.body, headers=served.headers, media_type="text/html")


@get("/clients/sash.ts", operation_id="getTypescriptClient", sync_to_thread=False)
@documented("The client for TypeScript", "operations", gives=str, gives_types=("text/plain",), is_page=True)
def get_typescript_client() -> Response[bytes]:
    """Sash's client for TypeScript: one file without dependencies."""
    return Response(TYPESCRIPT_CLIENT, headers={"Cache-Control": "max-age=300"}, media_type="text/plain; charset=utf-8")


@get("/runbook", operation_id="getRunbook")
@documented("What to do about an alert", "operations", gives=str, gives_types=("text/html",), is_page=True)
async def get_runbook() -> Response[bytes]:
    """The runbook as a page. The entry of an alert has its name in small letters: ``/runbook#sashstorefull``."""
    served = await PROCESSOR.run(runbook)
    return Response(served.body, headers=served.headers, media_type="text/html")


@get("/problems/{slug:str}", operation_id="getProblem", sync_to_thread=False)
@documented("What a problem means", "operations", gives=ProblemMeaning, gives_types=("application/json", "text/html"))
def get_problem(request: Incoming, slug: FromPath[str]) -> Response[bytes]:
    """The meaning of a problem's ``type`` and what to do about it, as JSON, or as a page for browsers."""
    kind = _PROBLEMS.get(slug)
    if kind is None:
        raise NotFound("There is no problem of this type.")
    means, do = meaning(kind)
    problem = ProblemMeaning(f"/problems/{slug}", kind.title, kind.status, means, do)
    if "text/html" in request.headers.get("accept", ""):
        return Response(_problem_page(problem), headers={**_PAGE.headers, "Vary": "Accept"}, media_type="text/html")
    return Response(msgspec.json.encode(problem), headers={"Vary": "Accept"})


def _problem_page(problem: ProblemMeaning) -> bytes:
    title, means, do = (
        re.sub("`([^`]*)`", r"<code>\1</code>", escape(each)) for each in (problem.title, problem.means, problem.do)
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<meta name=color-scheme content='light dark'><title>{title}</title><h1>{title}</h1>"
        f"<p><code>{problem.type}</code>, status {problem.status}</p><p>{means}</p><p>{do}</p>"
        "<p><a href=../docs>All operations</a></p></html>"
    ).encode()

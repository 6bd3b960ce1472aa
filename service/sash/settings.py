"""The operator's settings: ``SASH_…`` variables, read once from a mapping, which tests pass in.

A command-line option sets the same variable: ``Settings.read({**os.environ, "SASH_PORT": "9000"})``. ``Settings``
declares all of them. All errors are reported together, one line each, so that they can be corrected at once.

Two cases are not errors. An empty value counts as not set (``SASH_REDIS_URL=`` in a compose file). Variables that
Kubernetes injects for a service called ``sash`` are ignored, such as ``SASH_PORT=tcp://10.0.0.7:80``.
"""

import difflib
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, get_args, get_type_hints
from urllib.parse import unquote

import msgspec

from sash.core.chat.bounds import TEN_YEARS_SECONDS
from sash.variables import (
    MEDIA_HERE,
    ApiKey,
    Variable,
    address,
    choice,
    endpoint_key,
    flag,
    http_url,
    integer,
    is_address,
    master_keys,
    names,
    number,
    object_url,
    one_key,
    origins,
    size,
    store_url,
    tenant_keys,
    words,
)

if TYPE_CHECKING:
    from sash.core.counts.models.models import Model

_KUBERNETES_NAME = re.compile(
    r"SASH_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_KUBERNETES_PORT = re.compile(r"(?:tcp|udp|sctp)://.*")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_PARAMETER = re.compile(r"(?<=[?&#;])([^=&#;]*)=[^&#;]*")
_SECRET = re.compile(r"pass|pwd|secret|token|key|sig|auth|cred", re.IGNORECASE)


Durability = Literal["fast", "durable", "replicated", "assume"]
LogFormat = Literal["json", "console"]
SummaryKind = Literal["chat", "openai", "anthropic"]
Recall = Literal["off", "lexical", "semantic"]
Level = Literal["debug", "info", "warning", "error", "critical"]


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


class SettingsError(Exception):
    """Settings that cannot be used. ``lines`` has a line for each mistake, with the value to write instead."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting: its type, its variable, its default and why it is that. Their meanings are in deploy/README.md.

    The repr shows no secret, so it may be logged.

    >>> Settings.read({"SASH_REDIS_URL": "redis://:hunter2@cache:6379"}).redis_url
    'redis://:hunter2@cache:6379'
    >>> "hunter2" in repr(Settings.read({"SASH_REDIS_URL": "redis://:hunter2@cache:6379"}))
    False
    """

    # to start: for everybody who starts it
    host: Annotated[str, Variable(address, why="nobody else can reach it until somebody wants it")] = "127.0.0.1"
    port: Annotated[int, Variable(integer(0, 65535), why="what developers try first")] = 8000
    workers: Annotated[
        int, Variable(integer(1, 256), why="one worker is one processor, and a laptop has other work for the rest")
    ] = 1
    data_dir: Annotated[Path, Variable(Path, why="beside what is being tried, and easily thrown away")] = Path(
        "sash-data"
    )
    redis_url: Annotated[str | None, Variable(store_url, why="nothing else to install")] = None
    api_keys: Annotated[
        tuple[ApiKey, ...], Variable(tenant_keys, secret=True, why="on this machine alone a key protects from nobody")
    ] = ()
    require_keys: Annotated[
        bool, Variable(flag, why="keys that `sash keys create` made may be there before anybody uses them")
    ] = False
    allow_anonymous: Annotated[
        bool, Variable(flag, why="a service that others reach without keys is mostly an accident")
    ] = False
    # keep and protect: for who keeps people's conversations
    retention_seconds: Annotated[
        int | None, Variable(integer(1, TEN_YEARS_SECONDS), why="nothing goes that nobody said may go")
    ] = None
    durability: Annotated[Durability, Variable(choice(Durability), why="an acknowledged turn is on the disk")] = (
        "durable"
    )
    media_url: Annotated[
        str | None, Variable(object_url, why="one place to back up, until pictures cost too much memory there")
    ] = None
    """Where pictures and files over 8 KB are kept; None for the store itself, ``file:`` for the data directory."""
    encryption_key: Annotated[
        tuple[bytes, ...],
        Variable(
            master_keys,
            secret=True,
            why="a key that is lost takes all conversations with it, so nobody gets one unasked",
        ),
    ] = ()
    """Master keys: the first encrypts data keys, all of them decrypt data keys."""
    cors_origins: Annotated[
        tuple[str, ...], Variable(origins, why="browsers' pages have no key, and should go through a server")
    ] = ()
    metrics_key: Annotated[
        str | None,
        Variable(
            one_key,
            secret=True,
            why="figures have no text and no id of a person; keep the port from strangers, or set it",
        ),
    ] = None
    rate_limit: Annotated[
        float | None, Variable(number(0.01, 1_000_000), why="only an operator knows what a tenant may take")
    ] = None
    """Requests a second for each tenant."""
    max_body_bytes: Annotated[
        int,
        Variable(size(1024, 256 * 1024**2), why="room for a long turn with its pictures; a worker decodes it at once"),
    ] = 4 * 1024**2
    max_import_bytes: Annotated[
        int, Variable(size(1024, 1024**4), why="imports are streamed; 2 GiB are millions of messages")
    ] = 2 * 1024**3
    max_entries: Annotated[
        int, Variable(integer(1, 10_000), why="they are stored in one script, for which all others wait")
    ] = 100
    max_followers: Annotated[
        int, Variable(integer(0, 1_000_000), why="each open stream takes memory of its worker")
    ] = 4_000
    """Open streams of events that a worker takes."""
    max_tenant_followers: Annotated[
        int | None, Variable(integer(0, 1_000_000), why="one tenant alone does not take all")
    ] = None
    """Those of one tenant; None for half of all where there are keys, and so may be several tenants."""
    # what models read: for who tunes windows
    models_file: Annotated[Path | None, Variable(Path, why="the models that Sash lists are enough for most")] = None
    tokenizers: Annotated[Path | None, Variable(Path, why="vocabularies take 50 to 100 MB of each worker")] = None
    recall: Annotated[Recall, Variable(choice(Recall), why="an index takes memory for each message")] = "off"
    embeddings_url: Annotated[
        str | None, Variable(http_url, why="texts leave the machine only where somebody says where to")
    ] = None
    embeddings_model: Annotated[str | None, Variable(str, why="the endpoint's")] = None
    embeddings_key: Annotated[str | None, Variable(endpoint_key, secret=True, why="the endpoint's")] = None
    summarizer_kind: Annotated[
        SummaryKind, Variable(choice(SummaryKind), why="every provider has such an endpoint")
    ] = "chat"
    """``chat`` is any chat completions endpoint; the others are vendors' own compaction."""
    summarizer_url: Annotated[
        str | None, Variable(http_url, why="a summary costs a model's call, which somebody pays")
    ] = None
    summarizer_key: Annotated[str | None, Variable(endpoint_key, secret=True, why="the endpoint's")] = None
    summarizer_model: Annotated[str | None, Variable(str, why="the endpoint's")] = None
    summarizer_prompt: Annotated[str | None, Variable(str, secret=True, why="Sash has its own")] = None
    send_members: Annotated[
        frozenset[str], Variable(names, why="providers answer 400 to members that they do not know")
    ] = frozenset()
    """Members of messages that are sent although no provider is known to take them."""
    allow_items: Annotated[tuple[str, ...], Variable(words, why="what no provider has is mostly a slip")] = ()
    """Kinds of items, blocks and parts that are taken though no provider is known to have them; ``*`` are all."""
    # on call: for who runs it in production
    log_format: Annotated[LogFormat, Variable(choice(LogFormat), why="programs read it; `console` is for people")] = (
        "json"
    )
    log_level: Annotated[Level, Variable(choice(Level), why="one line a request")] = "info"
    library_log_level: Annotated[Level, Variable(choice(Level), why="below it they log addresses")] = "warning"
    trace_conversation_ids: Annotated[
        bool, Variable(flag, why="traces leave the deployment, and ids may name people")
    ] = False
    """Whether spans name a conversation by its id, and not by its hash."""
    request_timeout_seconds: Annotated[
        float,
        Variable(
            number(0.1, 600),
            why="answers take milliseconds, so what takes longer is broken, and clients wait 30 and more",
        ),
    ] = 10.0
    store_timeout_seconds: Annotated[
        float, Variable(number(0.05, 600), why="half of a request's time, so that it can still answer")
    ] = 5.0
    store_connections: Annotated[int, Variable(integer(1, 1024), why="calls share them, so few wait for one")] = 8
    http2: Annotated[bool, Variable(flag, why="with it a client may hold streams open without reading")] = False

    @classmethod
    def read(cls, environ: Mapping[str, str], *, read_text: Callable[[Path], str] = _read_text) -> Self:
        """The settings of ``environ``. ``read_text`` returns a file's text, for values of the form ``@file``.

        Raises:
            SettingsError: with one line for each mistake.
        """
        given = {name: value.strip() for name, value in environ.items() if name.startswith("SASH_") and value.strip()}
        given = {name: value for name, value in given.items() if not _injected(name, value)}
        known = {variable.name: variable for variable in VARIABLES}
        lines = [_unknown(name, known) for name in given if name not in known]
        values: dict[str, Any] = {}
        failed: set[str] = set()
        for name in known.keys() & given.keys():
            try:
                values[known[name].field] = _value(known[name], given[name], read_text)
            except ValueError as error:
                lines.append(str(error))
                failed.add(known[name].field)
        if "request_timeout_seconds" in values:
            values.setdefault(
                "store_timeout_seconds", min(cls().store_timeout_seconds, values["request_timeout_seconds"])
            )
        settings = cls(**values)
        lines.extend(line for line, fields in _conflicts(settings) if not fields & failed)
        if lines:
            raise SettingsError(tuple(sorted(lines)))
        return settings

    @property
    def media_place(self) -> str | None:
        """The URL of object storage for pictures and files; None where the store keeps them."""
        return (self.data_dir.absolute() / "media").as_uri() if self.media_url == MEDIA_HERE else self.media_url

    @property
    def anonymous(self) -> bool:
        """Whether requests need no key."""
        return not (self.api_keys or self.require_keys)

    @property
    def tenant_followers(self) -> int:
        """Open streams of events that a worker takes of one tenant."""
        if self.max_tenant_followers is not None:
            return min(self.max_tenant_followers, self.max_followers)
        return self.max_followers if self.anonymous else -(-self.max_followers // 2)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        return self.host == "localhost" or (is_address(self.host) and ipaddress.ip_address(self.host).is_loopback)

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        shown = []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value and name in {"summarizer_key", "embeddings_key", "encryption_key", "metrics_key"}:
                value = "***"
            shown.append((name, mask_url(value) if name.endswith("_url") and value else value))
        return shown


def mask_url(url: str) -> str:
    """The URL without user and password, and without the values of parameters whose names suggest secrets."""
    url = re.sub(r"//.*@", "//***@", url)  # up to the last @, because a wrongly written password may contain one
    return _PARAMETER.sub(lambda match: match[0] if not _SECRET.search(unquote(match[1])) else f"{match[1]}=***", url)


def mask_urls(text: str) -> str:
    """The text with every URL in it masked.

    >>> mask_urls("POST https://llm/v1?api_key=hunter2 gave 200")
    'POST https://llm/v1?api_key=*** gave 200'
    """
    return _URL.sub(lambda match: mask_url(match[0]), text) if "://" in text else text


def read_models(models_file: Path | None, tokenizers: Path | None) -> "Mapping[str, Model]":
    """A deployment's own models and vocabularies. Raises SettingsError if a file is missing or broken."""
    from sash.core.counts.models.models import OwnModels, load_models_toml  # noqa: PLC0415 - the settings alone need no tokeniser
    from sash.core.counts.text.vocabularies import find_files  # noqa: PLC0415

    name, path = "SASH_MODELS_FILE", models_file
    try:
        models = load_models_toml(models_file.read_text("utf-8")) if models_file is not None else {}
        if tokenizers is None:
            return models
        name, path = "SASH_TOKENIZERS", tokenizers
        files = find_files(tokenizers)
        for vocabulary in files.values():
            vocabulary.count("")
        return OwnModels(models, files)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise SettingsError((f"{name} is {str(path)!r}, which cannot be used: {reason}",)) from None


VARIABLES = tuple(
    msgspec.structs.replace(get_args(hint)[1], field=name)
    for name, hint in get_type_hints(Settings, include_extras=True).items()
)
"""The variables of all settings, in their order."""


class Group(NamedTuple):
    """Settings that the same people need: a title, who these are, and the first and the last field."""

    title: str
    who: str
    first: str
    last: str

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Its variables, in their order."""
        fields = [variable.field for variable in VARIABLES]
        return VARIABLES[fields.index(self.first) : fields.index(self.last) + 1]


GROUPS = (
    Group("To start", "everybody who starts it", "host", "allow_anonymous"),
    Group("Keep and protect", "who keeps people's conversations", "retention_seconds", "max_tenant_followers"),
    Group("What models read", "who tunes windows", "models_file", "allow_items"),
    Group("On call", "who runs it in production", "log_format", "http2"),
)
"""All settings, by who needs them."""


def _value(variable: Variable, given: str, read_text: Callable[[Path], str]) -> Any:
    """The parsed value. Raises ValueError with the whole line to show."""
    text = given
    if variable.secret and given.startswith("@"):
        try:
            text = read_text(Path(given[1:])).strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ValueError(f"{variable.name} names the file {given[1:]}, which cannot be read: {reason}") from None
    try:
        return variable.parse(text)
    except ValueError as error:
        shown = "" if variable.secret else f" is {mask_url(given)!r}"
        raise ValueError(f"{variable.name}{shown}: write {error}") from None


def _injected(name: str, value: str) -> bool:
    return bool(_KUBERNETES_NAME.fullmatch(name) or (name.endswith("_PORT") and _KUBERNETES_PORT.fullmatch(value)))


def _unknown(name: str, known: Iterable[str]) -> str:
    short = {other.removeprefix("SASH_"): other for other in known}
    near = difflib.get_close_matches(name.removeprefix("SASH_"), short, n=1, cutoff=0.5)
    return f"{name} is not a setting: " + (f"did you mean {short[near[0]]}?" if near else "unset it")


def _conflicts(settings: Settings) -> Iterator[tuple[str, set[str]]]:
    """Conflicts between settings that are valid alone: a line for each, and the fields of the conflict."""
    if settings.anonymous and not (settings.loopback or settings.allow_anonymous):
        line = (
            f"SASH_HOST is {settings.host!r}, which others can reach, and no key is required: set SASH_API_KEYS, "
            "or SASH_REQUIRE_KEYS=1 (sash keys create --tenant T makes a key), or SASH_ALLOW_ANONYMOUS=1 to serve everyone"
        )
        yield line, {"host", "api_keys", "require_keys", "allow_anonymous"}
    if settings.require_keys and settings.allow_anonymous:
        line = "SASH_REQUIRE_KEYS and SASH_ALLOW_ANONYMOUS contradict each other: set only one of them"
        yield line, {"require_keys", "allow_anonymous"}
    if settings.durability == "replicated" and settings.redis_url is None:
        line = (
            "SASH_DURABILITY is 'replicated', but the embedded store has no replica: "
            "set SASH_REDIS_URL, or write durable"
        )
        yield line, {"durability", "redis_url"}
    if settings.media_url == MEDIA_HERE and settings.redis_url is not None:
        line = "SASH_MEDIA_URL is 'file:', a folder of the embedded store: with SASH_REDIS_URL write file:///path, or s3://bucket"
        yield line, {"media_url", "redis_url"}
    if settings.store_timeout_seconds > settings.request_timeout_seconds:
        line = (
            f"SASH_STORE_TIMEOUT_SECONDS is {settings.store_timeout_seconds:g}, longer than a request may last: "
            f"write at most SASH_REQUEST_TIMEOUT_SECONDS ({settings.request_timeout_seconds:g})"
        )
        yield line, {"store_timeout_seconds", "request_timeout_seconds"}
    for part in ("summarizer", "embeddings"):
        fields = [f"{part}_{name}" for name in ("url", "model", "key")]
        url, model, key = (getattr(settings, field) for field in fields)
        needs_model = part == "embeddings" or settings.summarizer_kind == "chat"
        if (url is None or (model is None and needs_model)) and (url, model, key) != (None, None, None):
            name = f"SASH_{part.upper()}_"
            yield f"{name}URL and {name}MODEL belong together: set both, or no {name} variable", {*fields}
    if settings.recall == "semantic" and settings.embeddings_url is None:
        line = "SASH_RECALL is 'semantic', which needs an endpoint: set SASH_EMBEDDINGS_URL, or write lexical"
        yield line, {"recall", "embeddings_url", "embeddings_model", "embeddings_key"}

"""The operator's settings: ``SASH_…`` variables, read once from a mapping, which tests pass in.

A command-line option sets the same variable: ``Settings.read({**os.environ, "SASH_PORT": "9000"})``. ``VARIABLES`` lists
all of them. All errors are reported together, one line each, so that they can be corrected at once.

Two cases are not errors. An empty value counts as not set (``SASH_REDIS_URL=`` in a compose file). Variables that
Kubernetes injects for a service called ``sash`` are ignored, such as ``SASH_PORT=tcp://10.0.0.7:80``.
"""

import base64
import binascii
import difflib
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import unquote, urlsplit

import msgspec

from service.core.bounds import IDS, TEN_YEARS_SECONDS

_REDIS_URLS = {
    "redis": "redis://host:6379/0",
    "rediss": "rediss://host:6379/0",
    "redis+cluster": "redis+cluster://host:6379",
    "rediss+cluster": "rediss+cluster://host:6379",
    "redis+sentinel": "redis+sentinel://host:26379/master",
    "unix": "unix:///path/to/socket",
}
_DATABASE = {  # the URL's path after the host
    "redis": re.compile(r"(?:\d{1,4})?"),
    "rediss": re.compile(r"(?:\d{1,4})?"),
    "redis+cluster": re.compile(r"0?"),  # a cluster has one database
    "rediss+cluster": re.compile(r"0?"),
    "redis+sentinel": re.compile(r"[^/]+(?:/\d{1,4})?"),
}
_ENDPOINT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,253}")
_ORIGIN = re.compile(r"https?://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?")  # as browsers write it
_KEY = re.compile(r"[!-+\--~]{1,256}")  # visible ASCII except the comma, which separates keys in a list
_VISIBLE = re.compile(r"[!-~]+")
_KUBERNETES_NAME = re.compile(
    r"SASH_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_KUBERNETES_PORT = re.compile(r"(?:tcp|udp|sctp)://.*")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_PARAMETER = re.compile(r"(?<=[?&#;])([^=&#;]*)=[^&#;]*")
_SECRET = re.compile(r"pass|pwd|secret|token|key|sig|auth|cred", re.IGNORECASE)
_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


class SettingsError(Exception):
    """Settings that cannot be used. ``lines`` has a line for each mistake, with the value to write instead."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class ApiKey(msgspec.Struct, frozen=True):
    """A key and its tenant. A tenant may have several keys, so that a key can be replaced without an interruption."""

    tenant: str
    key: str

    def __repr__(self) -> str:
        return f"{self.tenant}:***"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting, with its default. Its repr shows no secret, so it may be logged.

    >>> Settings.read({"SASH_REDIS_URL": "redis://:hunter2@cache:6379"}).redis_url
    'redis://:hunter2@cache:6379'
    >>> "hunter2" in repr(Settings.read({"SASH_REDIS_URL": "redis://:hunter2@cache:6379"}))
    False
    """

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    http2: bool = False
    data_dir: Path = Path("sash-data")
    redis_url: str | None = None
    api_keys: tuple[ApiKey, ...] = ()
    require_keys: bool = False
    allow_anonymous: bool = False
    metrics_key: str | None = None
    cors_origins: tuple[str, ...] = ()
    retention_seconds: int | None = None
    durability: Literal["fast", "durable", "replicated", "assume"] = "durable"
    max_body_bytes: int = 4 * 1024 * 1024
    max_import_bytes: int = 2 * 1024 * 1024 * 1024
    max_entries: int = 100
    log_format: Literal["json", "console"] = "json"
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    library_log_level: Literal["debug", "info", "warning", "error", "critical"] = "warning"
    models_file: Path | None = None
    tokenizers: Path | None = None
    request_timeout_seconds: float = 10.0
    store_timeout_seconds: float = 5.0
    store_connections: int = 8
    summarizer_url: str | None = None
    summarizer_key: str | None = None
    summarizer_model: str | None = None
    summarizer_prompt: str | None = None
    recall: Literal["off", "lexical", "semantic"] = "off"
    embeddings_url: str | None = None
    embeddings_model: str | None = None
    embeddings_key: str | None = None
    encryption_key: tuple[bytes, ...] = ()
    """Master keys: the first encrypts data keys, all of them decrypt data keys."""
    rate_limit: float | None = None

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
                values[known[name].field] = known[name].value(given[name], read_text)
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
    def anonymous(self) -> bool:
        """Whether requests need no key."""
        return not (self.api_keys or self.require_keys)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        return self.host == "localhost" or (_is_address(self.host) and ipaddress.ip_address(self.host).is_loopback)

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


class Variable(msgspec.Struct, frozen=True):
    """One variable: its field of Settings, its parser and its meaning.

    ``parse`` raises ValueError with a description of valid values. The value of a ``secret`` is never shown, and may be
    ``@file``, the path of a file that contains it.
    """

    field: str
    parse: Callable[[str], Any]
    meaning: str
    secret: bool = False

    @property
    def name(self) -> str:
        """``SASH_`` and the field in capitals."""
        return f"SASH_{self.field.upper()}"

    def value(self, given: str, read_text: Callable[[Path], str]) -> Any:
        """The parsed value. Raises ValueError with the whole line to show."""
        text = given
        if self.secret and given.startswith("@"):
            try:
                text = read_text(Path(given[1:])).strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise ValueError(f"{self.name} names the file {given[1:]}, which cannot be read: {reason}") from None
        try:
            return self.parse(text)
        except ValueError as error:
            shown = "" if self.secret else f" is {mask_url(given)!r}"
            raise ValueError(f"{self.name}{shown}: write {error}") from None


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", value) or not low <= int(value) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(value)

    return parse


def _number(low: float, high: float) -> Callable[[str], float]:
    def parse(value: str) -> float:
        if not re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{1,18})?", value) or not low <= float(value) <= high:
            raise ValueError(f"a number from {low:g} to {high:g}")
        return float(value)

    return parse


def _choice(*words: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.lower() not in words:
            raise ValueError(" or ".join((", ".join(words[:-1]), words[-1])))
        return value.lower()

    return parse


def _flag(value: str) -> bool:
    if value.lower() not in _FLAGS:
        raise ValueError("1 or 0")
    return _FLAGS[value.lower()]


def _host(value: str) -> str:
    if not _HOST.fullmatch(value) and not _is_address(value):
        raise ValueError("an address such as 127.0.0.1, 0.0.0.0 or ::, without port and brackets")
    return value


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _http_url(value: str) -> str:
    try:
        url = urlsplit(value)
        right = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0 and value.isprintable()
    except ValueError:  # a broken IPv6 address or port
        right = False
    if not right:
        raise ValueError("a URL like https://host/v1/chat/completions")
    return value


def _redis_url(value: str) -> str:
    scheme, mark, rest = value.partition("://")
    if not mark or scheme not in _REDIS_URLS:
        raise ValueError("a URL like " + ", ".join(_REDIS_URLS.values()))
    if not _is_redis_url(scheme, rest.partition("?")[0]):
        several = ", several hosts with commas between" if "+" in scheme else ""
        raise ValueError(f"a URL like {_REDIS_URLS[scheme]}{several}")
    return value


def _is_redis_url(scheme: str, rest: str) -> bool:
    authority, _, path = rest.partition("/")
    hosts = authority.rpartition("@")[2].split(",")
    if scheme == "unix":
        return hosts == [""] and path != ""
    if len(hosts) > 1 and "+" not in scheme:
        return False
    endpoints = [_ENDPOINT.fullmatch(host) for host in hosts]
    return _DATABASE[scheme].fullmatch(path) is not None and all(
        match is not None and 1 <= int(match["port"] or 6379) <= 65535 for match in endpoints
    )


def _listed(value: str) -> list[str]:
    """The values between commas or line ends. Lines that begin with # are comments."""
    lines = [line for line in value.splitlines() if not line.lstrip().startswith("#")]
    return [each.strip() for line in lines for each in line.split(",") if each.strip()]


def _api_keys(value: str) -> tuple[ApiKey, ...]:
    pairs = _listed(value)
    keys: dict[str, ApiKey] = {}
    for place, pair in enumerate(pairs, 1):
        tenant, _, key = pair.partition(":")
        if not IDS.fullmatch(tenant) or not _KEY.fullmatch(key):
            raise ValueError(
                f"tenant:key,tenant:key,… or @file; entry {place} is not a tenant (letters, digits, . _ -, at most "
                "128), a colon and a key (at most 256 visible ASCII characters)"
            )
        if keys.setdefault(key, ApiKey(tenant, key)).tenant != tenant:
            raise ValueError(f"each key for one tenant only; entry {place} repeats the key of another tenant")
    if not keys:
        raise ValueError("tenant:key,tenant:key,… or @file; there is no key in it")
    return tuple(keys.values())


def _metrics_key(value: str) -> str:
    if not _KEY.fullmatch(value):
        raise ValueError("a key of at most 256 visible ASCII characters without commas, or @file")
    return value


def _endpoint_key(value: str) -> str:
    if not _VISIBLE.fullmatch(value):  # a header cannot carry it
        raise ValueError("a key of visible ASCII characters in one line, or @file")
    return value


def _origins(value: str) -> tuple[str, ...]:
    origins = tuple(origin.strip() for origin in value.split(",") if origin.strip())
    if origins != ("*",) and not all(_ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError("origins like https://chat.example.com with commas between and nothing after the port, or *")
    return origins


def _encryption_keyring(value: str) -> tuple[bytes, ...]:
    keys = [_encryption_key(key) for key in _listed(value)]
    for place, key in enumerate(keys, 1):
        if len(key) != 32:
            which = f"; key {place} of {len(keys)} is not one" if len(keys) > 1 else ""
            raise ValueError(f"32 random bytes in base64 or hex, as `openssl rand -base64 32` prints them{which}")
        if key in keys[: place - 1]:
            raise ValueError(f"each key once; key {place} repeats an earlier one")
    if not keys:
        raise ValueError("32 random bytes in base64 or hex; there is no key in it")
    return tuple(keys)


def _encryption_key(value: str) -> bytes:
    try:
        if len(value) == 64:
            return bytes.fromhex(value)
        return base64.b64decode(value.translate({45: 43, 95: 47}), validate=True)
    except (ValueError, binascii.Error):
        return b""


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
    if settings.store_timeout_seconds > settings.request_timeout_seconds:
        line = (
            f"SASH_STORE_TIMEOUT_SECONDS is {settings.store_timeout_seconds:g}, longer than a request may last: "
            f"write at most SASH_REQUEST_TIMEOUT_SECONDS ({settings.request_timeout_seconds:g})"
        )
        yield line, {"store_timeout_seconds", "request_timeout_seconds"}
    for part in ("summarizer", "embeddings"):
        fields = [f"{part}_{name}" for name in ("url", "model", "key")]
        url, model, key = (getattr(settings, field) for field in fields)
        if (url is None or model is None) and (url, model, key) != (None, None, None):
            name = f"SASH_{part.upper()}_"
            yield f"{name}URL and {name}MODEL belong together: set both, or no {name} variable", {*fields}
    if settings.recall == "semantic" and settings.embeddings_url is None:
        line = "SASH_RECALL is 'semantic', which needs an endpoint: set SASH_EMBEDDINGS_URL, or write lexical"
        yield line, {"recall", "embeddings_url", "embeddings_model", "embeddings_key"}


_LEVEL = _choice("debug", "info", "warning", "error", "critical")
VARIABLES = (
    Variable("host", _host, "address to listen on"),
    Variable("port", _integer(0, 65535), "port to listen on; 0 for a free one"),
    Variable("workers", _integer(1, 256), "server processes"),
    Variable("http2", _flag, "1 to allow HTTP/2 too, behind a proxy that clients cannot bypass"),
    Variable("data_dir", Path, "folder of the embedded store's data"),
    Variable("redis_url", _redis_url, "a Redis or Valkey to use in place of the embedded store"),
    Variable("api_keys", _api_keys, "tenant:key pairs with commas between, or @file", secret=True),
    Variable("require_keys", _flag, "1 to require a key made by sash keys, even without SASH_API_KEYS"),
    Variable("allow_anonymous", _flag, "1 to listen beyond this machine without keys"),
    Variable(
        "metrics_key",
        _metrics_key,
        "key of /metrics and /stats, which tenants' keys do not open; or @file",
        secret=True,
    ),
    Variable("cors_origins", _origins, "origins whose pages may send requests, with commas between; or *"),
    Variable(
        "retention_seconds",
        _integer(1, TEN_YEARS_SECONDS),
        "seconds until an unchanged conversation is erased; unset: never",
    ),
    Variable(
        "durability",
        _choice("fast", "durable", "replicated", "assume"),
        "when an append is acknowledged: in memory, on disk, or on a replica; assume: on disk, without checking",
    ),
    Variable("max_body_bytes", _integer(1024, 256 * 1024 * 1024), "largest request body"),
    Variable("max_import_bytes", _integer(1024, 1024**4), "largest import, which is streamed"),
    Variable("max_entries", _integer(1, 10_000), "largest number of entries in one append"),
    Variable("log_format", _choice("json", "console"), "json, or console for people"),
    Variable("log_level", _LEVEL, "the lowest level that is logged"),
    Variable(
        "library_log_level",
        _LEVEL,
        "the lowest level of libraries' log lines, within SASH_LOG_LEVEL; below warning they contain addresses",
    ),
    Variable("models_file", Path, "file of your own models, in addition to the built-in ones"),
    Variable("tokenizers", Path, "a folder of vocabularies: tokenizer.json, or tiktoken's ranks"),
    Variable("request_timeout_seconds", _number(0.1, 600), "longest duration of a request"),
    Variable("store_timeout_seconds", _number(0.05, 600), "longest wait for the store"),
    Variable("store_connections", _integer(1, 1024), "connections to the store in each process"),
    Variable("summarizer_url", _http_url, "chat completions endpoint that writes summaries"),
    Variable("summarizer_key", _endpoint_key, "the summariser's API key, or @file", secret=True),
    Variable("summarizer_model", str, "the summariser's model"),
    Variable("summarizer_prompt", str, "the summariser's system prompt, or @file", secret=True),
    Variable(
        "recall",
        _choice("off", "lexical", "semantic"),
        "how conversations recall older messages by default: off, by words, or also by vectors",
    ),
    Variable("embeddings_url", _http_url, "embeddings endpoint of semantic recall"),
    Variable("embeddings_model", str, "the embedding model"),
    Variable("embeddings_key", _endpoint_key, "the embeddings endpoint's API key, or @file", secret=True),
    Variable(
        "encryption_key",
        _encryption_keyring,
        "encrypts stored text: one master key or several, the first for new data keys; or @file",
        secret=True,
    ),
    Variable("rate_limit", _number(0.01, 1_000_000), "requests a second for each tenant; unset: no limit"),
)

"""The declaration of one ``SASH_…`` variable, and the parsers of its text.

A parser returns the value, or raises ValueError with a description of valid values, which follows the words "write …".
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec

from sash.core.chat.bounds import IDS

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
_WORD = re.compile(r"[A-Za-z0-9_.:-]{1,100}|\*")
_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


class ApiKey(msgspec.Struct, frozen=True):
    """A key and its tenant. A tenant may have several keys, so that a key can be replaced without an interruption."""

    tenant: str
    key: str

    def __repr__(self) -> str:
        return f"{self.tenant}:***"


class Variable(msgspec.Struct, frozen=True):
    """One variable and its parser. ``field`` is the field of Settings that declares it.

    The value of a ``secret`` is never shown, and may be ``@file``, the path of a file that contains it. ``why`` is the
    reason of the default.
    """

    parse: Callable[[str], Any]
    secret: bool = False
    why: str = ""
    field: str = ""

    @property
    def name(self) -> str:
        """``SASH_`` and the field in capitals."""
        return f"SASH_{self.field.upper()}"


def integer(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", value) or not low <= int(value) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(value)

    return parse


_UNITS = {
    "": 1,
    "k": 1000,
    "m": 1000**2,
    "g": 1000**3,
    "t": 1000**4,
    "ki": 1024,
    "mi": 1024**2,
    "gi": 1024**3,
    "ti": 1024**4,
}


def size(low: int, high: int) -> Callable[[str], int]:
    """A number of bytes, with a unit if one is given: KB and MB are of 1000, KiB and MiB of 1024."""

    def parse(value: str) -> int:
        found = re.fullmatch(r"([0-9]{1,18}) ?(?:([kmgt]i?)?b?)", value, re.IGNORECASE)
        size_bytes = int(found[1]) * _UNITS[(found[2] or "").lower()] if found else -1
        if not low <= size_bytes <= high:
            raise ValueError(f"a number of bytes from {low} to {high}, such as 4194304, 4MiB or 4MB")
        return size_bytes

    return parse


def number(low: float, high: float) -> Callable[[str], float]:
    def parse(value: str) -> float:
        if not re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{1,18})?", value) or not low <= float(value) <= high:
            raise ValueError(f"a number from {low:g} to {high:g}")
        return float(value)

    return parse


def choice(literal: Any) -> Callable[[str], str]:
    """One of a Literal's words, in any case."""
    words = get_args(literal)

    def parse(value: str) -> str:
        if value.lower() not in words:
            raise ValueError(" or ".join((", ".join(words[:-1]), words[-1])))
        return value.lower()

    return parse


def words(value: str) -> tuple[str, ...]:
    """Return words with commas between them."""
    found = [word.strip() for word in value.split(",")]
    if not all(_WORD.fullmatch(word) for word in found):
        raise ValueError("names with commas between them, or *")
    return tuple(found)


def flag(value: str) -> bool:
    if value.lower() not in _FLAGS:
        raise ValueError("1 or 0")
    return _FLAGS[value.lower()]


def address(value: str) -> str:
    if not _HOST.fullmatch(value) and not is_address(value):
        raise ValueError("an address such as 127.0.0.1, 0.0.0.0 or ::, without port and brackets")
    return value


def is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def http_url(value: str) -> str:
    try:
        url = urlsplit(value)
        right = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0 and value.isprintable()
    except ValueError:  # a broken IPv6 address or port
        right = False
    if not right:
        raise ValueError("a URL like https://host/v1/chat/completions")
    return value


MEDIA_HERE = "file:"
"""The folder ``media`` of the data directory."""
_MEDIA_URL = re.compile(r"file:///\S+|(?:s3|gs)://[A-Za-z0-9._-]+(?:/\S*)?|az://[A-Za-z0-9-]+/[A-Za-z0-9-]+(?:/\S*)?")


def object_url(value: str) -> str:
    if value != MEDIA_HERE and not _MEDIA_URL.fullmatch(value):
        raise ValueError(
            "file:, or a URL like file:///path, s3://bucket/prefix, gs://bucket/prefix, az://account/container"
        )
    return value


def store_url(value: str) -> str:
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


def tenant_keys(value: str) -> tuple[ApiKey, ...]:
    pairs = _listed(value)
    keys: dict[str, ApiKey] = {}
    for place, pair in enumerate(pairs, 1):
        tenant, colon, key = pair.partition(":")
        if not IDS.fullmatch(tenant) or not _KEY.fullmatch(key):
            made = "" if colon else "; to require keys that `sash keys create` made, set SASH_REQUIRE_KEYS=1 instead"
            raise ValueError(
                f"tenant:key,tenant:key,… or @file; entry {place} is not a tenant (letters, digits, . _ -, at most "
                f"128), a colon and a key (at most 256 visible ASCII characters){made}"
            )
        if keys.setdefault(key, ApiKey(tenant, key)).tenant != tenant:
            raise ValueError(f"each key for one tenant only; entry {place} repeats the key of another tenant")
    if not keys:
        raise ValueError("tenant:key,tenant:key,… or @file; there is no key in it")
    return tuple(keys.values())


def one_key(value: str) -> str:
    """A key that can be in a list of keys."""
    if not _KEY.fullmatch(value):
        raise ValueError("a key of at most 256 visible ASCII characters without commas, or @file")
    return value


def endpoint_key(value: str) -> str:
    """A key that can be in a header."""
    if not _VISIBLE.fullmatch(value):
        raise ValueError("a key of visible ASCII characters in one line, or @file")
    return value


def origins(value: str) -> tuple[str, ...]:
    found = tuple(origin.strip() for origin in value.split(",") if origin.strip())
    if found != ("*",) and not all(_ORIGIN.fullmatch(origin) for origin in found):
        raise ValueError("origins like https://chat.example.com with commas between and nothing after the port, or *")
    return found


def names(value: str) -> frozenset[str]:
    found = frozenset(name.strip() for name in value.split(",") if name.strip())
    if not found or (len(found) > 1 and "*" in found):
        raise ValueError("names of members with commas between, like timestamp,modelInfo, or *")
    return found


def master_keys(value: str) -> tuple[bytes, ...]:
    keys = [_key_bytes(key) for key in _listed(value)]
    for place, key in enumerate(keys, 1):
        if len(key) != 32:
            which = f"; key {place} of {len(keys)} is not one" if len(keys) > 1 else ""
            raise ValueError(f"32 random bytes in base64 or hex, as `openssl rand -base64 32` prints them{which}")
        if key in keys[: place - 1]:
            raise ValueError(f"each key once; key {place} repeats an earlier one")
    if not keys:
        raise ValueError("32 random bytes in base64 or hex; there is no key in it")
    return tuple(keys)


def _key_bytes(value: str) -> bytes:
    try:
        if len(value) == 64:
            return bytes.fromhex(value)
        return base64.b64decode(value.translate({45: 43, 95: 47}), validate=True)
    except (ValueError, binascii.Error):
        return b""

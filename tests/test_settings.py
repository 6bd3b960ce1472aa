"""Settings: accepted values, refused values with their messages, and secrets that are never shown."""

import base64
from pathlib import Path

import pytest

from sash.settings import VARIABLES, ApiKey, Settings, SettingsError, mask_url

KEY = base64.b64encode(bytes(range(32))).decode()
RIGHT = [
    ("SASH_HOST", "::1", "host", "::1"),
    ("SASH_HOST", "localhost", "host", "localhost"),
    ("SASH_PORT", "65535", "port", 65535),
    ("SASH_PORT", "0", "port", 0),
    ("SASH_HTTP2", "1", "http2", True),
    ("SASH_LIBRARY_LOG_LEVEL", "info", "library_log_level", "info"),
    ("SASH_WORKERS", " 4 ", "workers", 4),
    ("SASH_DATA_DIR", "/var/lib/sash", "data_dir", Path("/var/lib/sash")),
    ("SASH_REDIS_URL", "redis://cache:6379/3", "redis_url", "redis://cache:6379/3"),
    ("SASH_REDIS_URL", "rediss://:a%40b@[::1]:6380?ssl_cert_reqs=none", "redis_url", None),
    ("SASH_REDIS_URL", "redis+cluster://a:7000,b:7001,c", "redis_url", None),
    ("SASH_REDIS_URL", "rediss+cluster://u:p@a:7000/0", "redis_url", None),
    ("SASH_REDIS_URL", "redis+sentinel://s1:26379,s2:26379/mymaster/2", "redis_url", None),
    ("SASH_REDIS_URL", "unix:///run/valkey.sock", "redis_url", "unix:///run/valkey.sock"),
    ("SASH_MEDIA_URL", "file:", "media_url", "file:"),
    ("SASH_MEDIA_URL", "file:///srv/sash", "media_url", "file:///srv/sash"),
    ("SASH_MEDIA_URL", "s3://bucket/some/prefix", "media_url", "s3://bucket/some/prefix"),
    ("SASH_MEDIA_URL", "gs://bucket", "media_url", "gs://bucket"),
    ("SASH_MEDIA_URL", "az://account/container", "media_url", "az://account/container"),
    ("SASH_API_KEYS", "acme:k1, beta:k2,acme:a:b", "api_keys", None),
    ("SASH_ALLOW_ANONYMOUS", "TRUE", "allow_anonymous", True),
    ("SASH_REQUIRE_KEYS", "1", "require_keys", True),
    ("SASH_METRICS_KEY", "m-1", "metrics_key", "m-1"),
    ("SASH_CORS_ORIGINS", "https://a.example, http://localhost:3000", "cors_origins", None),
    ("SASH_CORS_ORIGINS", "*", "cors_origins", ("*",)),
    ("SASH_RETENTION_SECONDS", "86400", "retention_seconds", 86400),
    ("SASH_DURABILITY", "Fast", "durability", "fast"),
    ("SASH_MAX_BODY_BYTES", "1024", "max_body_bytes", 1024),
    ("SASH_MAX_BODY_BYTES", "4MB", "max_body_bytes", 4_000_000),
    ("SASH_MAX_BODY_BYTES", "4 MiB", "max_body_bytes", 4 * 1024**2),
    ("SASH_MAX_IMPORT_BYTES", "1g", "max_import_bytes", 1000**3),
    ("SASH_MAX_ENTRIES", "1000", "max_entries", 1000),
    ("SASH_MAX_TENANT_FOLLOWERS", "50", "max_tenant_followers", 50),
    ("SASH_SEND_MEMBERS", "timestamp, modelInfo,", "send_members", frozenset({"timestamp", "modelInfo"})),
    ("SASH_SEND_MEMBERS", "*", "send_members", frozenset({"*"})),
    ("SASH_ALLOW_ITEMS", "new_call, browser_state", "allow_items", ("new_call", "browser_state")),
    ("SASH_LOG_FORMAT", "console", "log_format", "console"),
    ("SASH_LOG_LEVEL", "WARNING", "log_level", "warning"),
    ("SASH_MODELS_FILE", "models.json", "models_file", Path("models.json")),
    ("SASH_TOKENIZERS", "/etc/sash/tokenizers", "tokenizers", Path("/etc/sash/tokenizers")),
    ("SASH_REQUEST_TIMEOUT_SECONDS", "30", "request_timeout_seconds", 30.0),
    ("SASH_STORE_TIMEOUT_SECONDS", "0.25", "store_timeout_seconds", 0.25),
    ("SASH_STORE_CONNECTIONS", "2", "store_connections", 2),
    ("SASH_SUMMARIZER_PROMPT", "Be brief.", "summarizer_prompt", "Be brief."),
    ("SASH_ENCRYPTION_KEY", KEY, "encryption_key", (bytes(range(32)),)),
    ("SASH_ENCRYPTION_KEY", bytes(range(32)).hex(), "encryption_key", (bytes(range(32)),)),
    ("SASH_ENCRYPTION_KEY", f"{KEY}, {'ab' * 32}", "encryption_key", (bytes(range(32)), b"\xab" * 32)),
    ("SASH_RATE_LIMIT", "12.5", "rate_limit", 12.5),
]
WRONG = [
    ("SASH_HOST", "127.0.0.1:80", "SASH_HOST is '127.0.0.1:80': write an address such as"),
    ("SASH_PORT", "-1", "SASH_PORT is '-1': write a whole number from 0 to 65535"),
    ("SASH_PORT", "65536", "SASH_PORT is '65536': write a whole number"),
    ("SASH_PORT", "8_000", "SASH_PORT is '8_000': write a whole number"),
    ("SASH_PORT", "٨٠٠٠", "SASH_PORT is '٨٠٠٠': write a whole number"),
    ("SASH_WORKERS", "-1", "SASH_WORKERS is '-1': write a whole number from 1 to 256"),
    ("SASH_WORKERS", "9" * 5000, "write a whole number from 1 to 256"),
    (
        "SASH_REDIS_URL",
        "http://cache",
        "SASH_REDIS_URL is 'http://cache': write a URL like redis://host:6379/0, rediss://",
    ),
    ("SASH_MEDIA_URL", "/srv/sash", "write file:, or a URL like file:///path, s3://bucket/prefix"),
    ("SASH_MEDIA_URL", "file://srv", "write file:, or a URL like"),
    ("SASH_MEDIA_URL", "https://bucket.s3.amazonaws.com", "write file:, or a URL like"),
    ("SASH_REDIS_URL", "cache:6379", "write a URL like redis://host:6379/0"),
    ("SASH_REDIS_URL", "redis://", "write a URL like redis://host:6379/0"),
    ("SASH_REDIS_URL", "redis://a:1,b:2", "write a URL like redis://host:6379/0"),
    ("SASH_REDIS_URL", "redis://cache:70000", "write a URL like redis://host:6379/0"),
    ("SASH_REDIS_URL", "redis://cache/zero", "write a URL like redis://host:6379/0"),
    ("SASH_REDIS_URL", "redis+cluster://a:1/2", "write a URL like redis+cluster://host:6379, several hosts"),
    ("SASH_REDIS_URL", "redis+sentinel://s1:26379", "write a URL like redis+sentinel://host:26379/master"),
    ("SASH_REDIS_URL", "unix://relative", "write a URL like unix:///path/to/socket"),
    ("SASH_METRICS_KEY", "two words", "SASH_METRICS_KEY: write a key of at most 256 visible"),
    (
        "SASH_CORS_ORIGINS",
        "https://a.example/",
        "SASH_CORS_ORIGINS is 'https://a.example/': write origins like https://",
    ),
    ("SASH_CORS_ORIGINS", "a.example", "write origins like https://"),
    ("SASH_CORS_ORIGINS", "https://*.example", "write origins like https://"),
    ("SASH_CORS_ORIGINS", "*,https://a.example", "write origins like https://"),
    ("SASH_CORS_ORIGINS", "null", "write origins like https://"),
    ("SASH_API_KEYS", "acme", "SASH_API_KEYS: write tenant:key,tenant:key,… or @file; entry 1 is not a tenant"),
    ("SASH_API_KEYS", "required", "to require keys that `sash keys create` made, set SASH_REQUIRE_KEYS=1 instead"),
    ("SASH_API_KEYS", "acme:k1,a/b:k2", "entry 2 is not a tenant"),
    ("SASH_API_KEYS", "acme:", "entry 1 is not a tenant"),
    ("SASH_API_KEYS", "acme:k1,beta:k1", "SASH_API_KEYS: write each key for one tenant only; entry 2 repeats"),
    ("SASH_API_KEYS", ",", "there is no key in it"),
    ("SASH_ALLOW_ANONYMOUS", "maybe", "SASH_ALLOW_ANONYMOUS is 'maybe': write 1 or 0"),
    ("SASH_RETENTION_SECONDS", "0", "write a whole number from 1 to 315360000"),
    ("SASH_DURABILITY", "safe", "SASH_DURABILITY is 'safe': write fast, durable, replicated or assume"),
    ("SASH_DURABILITY", "replicated", "the embedded store has no replica: set SASH_REDIS_URL"),
    ("SASH_MAX_BODY_BYTES", "4 megs", "a number of bytes from 1024 to 268435456, such as 4194304, 4MiB or 4MB"),
    ("SASH_MAX_BODY_BYTES", "4TB", "a number of bytes from 1024 to 268435456"),
    ("SASH_MAX_ENTRIES", "0", "write a whole number from 1 to 10000"),
    ("SASH_SEND_MEMBERS", ",", "write names of members with commas between, like timestamp,modelInfo, or *"),
    ("SASH_SEND_MEMBERS", "*,timestamp", "write names of members with commas between"),
    ("SASH_ALLOW_ITEMS", "new call", "write names with commas between them, or *"),
    ("SASH_LOG_FORMAT", "xml", "write json or console"),
    ("SASH_REQUEST_TIMEOUT_SECONDS", "nan", "write a number from 0.1 to 600"),
    ("SASH_REQUEST_TIMEOUT_SECONDS", "1e9", "write a number from 0.1 to 600"),
    (
        "SASH_STORE_TIMEOUT_SECONDS",
        "11",
        "longer than a request may last: write at most SASH_REQUEST_TIMEOUT_SECONDS (10)",
    ),
    ("SASH_SUMMARIZER_KEY", "sk-1", "SASH_SUMMARIZER_URL and SASH_SUMMARIZER_MODEL belong together"),
    ("SASH_SUMMARIZER_URL", "ftp://host", "write a URL like https://host/v1/chat/completions"),
    ("SASH_SUMMARIZER_URL", "https://[::1", "write a URL like https://host/v1/chat/completions"),
    ("SASH_SUMMARIZER_URL", "https://llm/\tv1", "write a URL like https://host/v1/chat/completions"),
    ("SASH_SUMMARIZER_KEY", "sk-1\nsk-2", "SASH_SUMMARIZER_KEY: write a key of visible ASCII characters in one line"),
    ("SASH_EMBEDDINGS_KEY", "clé", "SASH_EMBEDDINGS_KEY: write a key of visible ASCII characters in one line"),
    ("SASH_ENCRYPTION_KEY", "c2hvcnQ=", "SASH_ENCRYPTION_KEY: write 32 random bytes in base64 or hex"),
    ("SASH_ENCRYPTION_KEY", "z" * 64, "SASH_ENCRYPTION_KEY: write 32 random bytes in base64 or hex"),
    ("SASH_ENCRYPTION_KEY", f"{KEY},short", "prints them; key 2 of 2 is not one"),
    ("SASH_ENCRYPTION_KEY", f"{KEY},{KEY}", "SASH_ENCRYPTION_KEY: write each key once; key 2 repeats an earlier one"),
    ("SASH_ENCRYPTION_KEY", ",", "there is no key in it"),
    ("SASH_RATE_LIMIT", "0", "write a number from 0.01 to 1e+06"),
]


def wrong_lines(environ: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        Settings.read(environ)
    assert str(caught.value) == "\n".join(caught.value.lines)
    return caught.value.lines


def test_nothing_set_gives_the_defaults():
    """Without variables the service listens on loopback and uses the embedded store."""
    assert Settings() == Settings.read({"PATH": "/bin", "SASHIMI": "raw"})
    assert Settings().redis_url is None
    assert Settings().loopback


@pytest.mark.parametrize(("name", "text", "field", "value"), RIGHT)
def test_a_right_value_is_read(name: str, text: str, field: str, value: object):
    """Each variable sets its field; surrounding spaces and letter case are ignored."""
    read = getattr(Settings.read({name: text}), field)

    assert read != getattr(Settings(), field) or value == read
    if value is not None:
        assert value == read


@pytest.mark.parametrize(("name", "text", "line"), WRONG)
def test_a_wrong_value_is_one_line_that_says_what_to_write(name: str, text: str, line: str):
    """A wrong value is an error of one line that says what to write instead."""
    lines = wrong_lines({name: text})

    assert len(lines) == 1
    assert line in lines[0]
    assert "\n" not in lines[0]


def test_every_field_has_a_variable_named_after_it():
    """Every field has a variable, and every variable sets a field."""
    assert list(Settings.__struct_fields__) == [variable.field for variable in VARIABLES]
    assert [f"SASH_{field.upper()}" for field in Settings.__struct_fields__] == [v.name for v in VARIABLES]


def test_everything_wrong_is_reported_at_once():
    """One error reports all wrong variables."""
    lines = wrong_lines({"SASH_PORT": "x", "SASH_WORKERS": "0", "SASH_LOG_LEVEL": "loud", "SASH_POTR": "1"})

    assert [line.split()[0] for line in lines] == ["SASH_LOG_LEVEL", "SASH_PORT", "SASH_POTR", "SASH_WORKERS"]


def test_an_unknown_variable_names_the_nearest_one():
    """An unknown variable is an error, which names the nearest variable if there is one."""
    assert wrong_lines({"SASH_REDIS": "redis://cache"}) == (
        "SASH_REDIS is not a setting: did you mean SASH_REDIS_URL?",
    )
    assert wrong_lines({"SASH_XQZ": "1"}) == ("SASH_XQZ is not a setting: unset it",)


def test_an_empty_value_counts_as_absent():
    """An empty value, such as ``SASH_REDIS_URL=`` in a compose file, gives the default."""
    assert Settings.read({"SASH_REDIS_URL": "", "SASH_PORT": " ", "SASH_TYPO": ""}) == Settings()


def test_what_kubernetes_injects_for_a_service_is_ignored():
    """Variables that Kubernetes injects for a Service named sash or sash-redis are ignored."""
    injected = {
        "SASH_SERVICE_HOST": "10.0.0.7",
        "SASH_SERVICE_PORT": "80",
        "SASH_SERVICE_PORT_HTTP": "80",
        "SASH_PORT": "tcp://10.0.0.7:80",
        "SASH_PORT_80_TCP": "tcp://10.0.0.7:80",
        "SASH_PORT_80_TCP_ADDR": "10.0.0.7",
        "SASH_REDIS_PORT": "tcp://10.0.0.8:6379",
        "SASH_REDIS_SERVICE_HOST": "10.0.0.8",
        "SASH_REDIS_PORT_6379_TCP_PROTO": "tcp",
    }

    assert Settings.read(injected) == Settings()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "sash.internal"])
def test_listening_beyond_this_machine_needs_keys_or_a_plain_word(host: str):
    """An address beyond loopback needs SASH_API_KEYS or SASH_ALLOW_ANONYMOUS=1."""
    (line,) = wrong_lines({"SASH_HOST": host})

    assert "SASH_API_KEYS" in line
    assert "SASH_ALLOW_ANONYMOUS=1" in line
    assert Settings.read({"SASH_HOST": host, "SASH_ALLOW_ANONYMOUS": "1"}).allow_anonymous
    assert Settings.read({"SASH_HOST": host, "SASH_API_KEYS": "acme:k1"}).api_keys == (ApiKey("acme", "k1"),)


def test_broken_keys_are_not_reported_as_missing_keys():
    """A mistake in the keys is one line, not two that contradict each other."""
    (line,) = wrong_lines({"SASH_HOST": "0.0.0.0", "SASH_API_KEYS": "nocolon"})

    assert line.startswith("SASH_API_KEYS: write tenant:key")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_keys(host: str):
    """A service on loopback needs no keys."""
    assert Settings.read({"SASH_HOST": host}).loopback


def test_keys_may_come_from_a_file():
    """``@file`` reads keys from a file, separated by commas or lines; comments are ignored."""
    files = {Path("/run/keys"): "# ours\nacme:k1\n\nbeta:k2, gamma:k3\n"}

    settings = Settings.read({"SASH_API_KEYS": "@/run/keys"}, read_text=files.__getitem__)

    assert settings.api_keys == (ApiKey("acme", "k1"), ApiKey("beta", "k2"), ApiKey("gamma", "k3"))


def test_a_file_that_cannot_be_read_is_a_line(tmp_path: Path):
    """A file that is missing or not UTF-8 is an error of one line that names the file."""
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")

    (absent,) = wrong_lines({"SASH_API_KEYS": f"@{tmp_path}/absent"})
    (no_text,) = wrong_lines({"SASH_ENCRYPTION_KEY": f"@{binary}"})

    assert absent.endswith("absent, which cannot be read: No such file or directory")
    assert no_text.endswith("binary, which cannot be read: it is not UTF-8")


def test_a_short_request_timeout_shortens_the_wait_for_the_store():
    """A short request timeout also shortens the store timeout, so that an operator need not set both."""
    settings = Settings.read({"SASH_REQUEST_TIMEOUT_SECONDS": "2"})

    assert (settings.request_timeout_seconds, settings.store_timeout_seconds) == (2.0, 2.0)


def test_no_secret_is_in_the_repr():
    """Settings may be logged: keys and passwords are masked, tenants and hosts are not."""
    settings = Settings.read(
        {
            "SASH_REDIS_URL": "rediss://user:hunter2@cache:6380/0?password=hunter3&health_check_interval=5",
            "SASH_API_KEYS": "acme:hunter4",
            "SASH_SUMMARIZER_URL": "https://u:hunter5@llm/v1?api-key=hunter6",
            "SASH_SUMMARIZER_MODEL": "gpt-4o-mini",
            "SASH_SUMMARIZER_KEY": "hunter7",
            "SASH_ENCRYPTION_KEY": KEY,
        }
    )

    for shown in (repr(settings), str(settings), repr(settings.__rich_repr__())):
        assert "hunter" not in shown
        assert repr(settings.encryption_key) not in shown
        assert "acme:***" in shown
        assert "rediss://***@cache:6380/0?password=***&health_check_interval=5" in shown


def test_no_secret_is_in_an_error():
    """A line about a wrong value shows a URL without its password, and no key at all."""
    environ = {
        "SASH_REDIS_URL": "redis://:hun/ter2@cache:x",
        "SASH_API_KEYS": "hunter2",
        "SASH_ENCRYPTION_KEY": "hunter2",
    }

    text = "\n".join(wrong_lines(environ))

    assert "ter2" not in text
    assert "redis://***@cache:x" in text


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("redis://cache:6379/0", "redis://cache:6379/0"),
        ("redis://:p@ss@cache", "redis://***@cache"),
        ("unix:///run/s.sock?db=0&password=x", "unix:///run/s.sock?db=0&password=***"),
        ("cache:6379", "cache:6379"),
        ("https://u:p@llm/v1?key=x&api-version=1", "https://***@llm/v1?key=***&api-version=1"),
        ("https://llm/v1?X-Amz-Signature=x&pwd=y;sig=z", "https://llm/v1?X-Amz-Signature=***&pwd=***;sig=***"),
        ("https://llm/v1?api%5Fk%65y=x#access_token=y", "https://llm/v1?api%5Fk%65y=***#access_token=***"),
    ],
)
def test_mask_url(url: str, masked: str):
    """``mask_url`` hides user, password and secret parameters, and keeps the rest."""
    assert masked == mask_url(url)


def test_a_tenants_share_of_followers() -> None:
    """Half of a worker's places where keys are required, all where everybody is one tenant; never more than all."""
    keys = {"SASH_API_KEYS": "acme:k1,beta:k2", "SASH_MAX_FOLLOWERS": "9"}
    assert Settings.read({}).tenant_followers == 4000
    assert Settings.read(keys).tenant_followers == 5
    assert Settings.read({**keys, "SASH_MAX_TENANT_FOLLOWERS": "2"}).tenant_followers == 2
    assert Settings.read({**keys, "SASH_MAX_TENANT_FOLLOWERS": "20"}).tenant_followers == 9

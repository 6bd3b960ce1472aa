"""The contract that every provider's record keeps, and what it takes to add one."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import sash
from sash.core.counts.models.models import find_model
from sash.core.counts.requests.provider_requests import count_provider_request
from sash.core.providers import PROVIDERS
from sash.core.providers.reading.native import read_messages, read_request
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"day":1}'}}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is on today?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "a talk"},
    {"role": "assistant", "content": "A talk."},
    {"role": "user", "content": "And tomorrow?"},
]
OTHERS = [name for name, provider in PROVIDERS.items() if not provider.is_chat_form]


def window(form: str, messages: list[Any], of: str = "openai") -> dict[str, Any]:
    """Return a window in ``form`` of messages in the form ``of``."""
    body = {"model": "gpt-4o", "format": form, "messages": messages, "tools": [TOOL]}
    wanted, sent = decode_request(msgspec.json.encode(body), of)
    made, _ = window_of_request(wanted, {}, sent)
    found: dict[str, Any] = msgspec.json.decode(made.body)
    return found


def goes_round(form: str) -> None:
    """Assert that a chat is written, counted, read and written again, and stays what it was."""
    provider = PROVIDERS[form]
    made = window(form, CHAT)
    written = made["request"]
    own = written[provider.shape.messages]
    counted = count_provider_request(form, written, find_model("gpt-4o"))
    assert made["tokens"]["total"] <= counted.tokens <= made["tokens"]["total"] + 3 * len(CHAT)
    chat = read_request(form, written)
    texts = " ".join(str(message.get("content")) for message in chat.messages)
    assert all(message["content"] in texts for message in CHAT)
    assert [tool["function"]["name"] for tool in chat.tools] == ["look"]
    assert [turn.message["native"]["format"] for turn in read_messages(form, own, ["/x"] * len(own))]
    assert window(form, own, form)["request"][provider.shape.messages] == own


@pytest.mark.parametrize("form", OTHERS)
def test_a_chat_goes_out_and_comes_back(form: str) -> None:
    """A chat that is written in a provider's form is counted, read and written again unchanged."""
    goes_round(form)


def test_a_record_without_a_member_cannot_be_made() -> None:
    """A provider that lacks a member fails where it is declared, and never in a request."""
    whole = {name: getattr(PROVIDERS["anthropic"], name) for name in PROVIDERS["anthropic"].__struct_fields__}
    kind = type(PROVIDERS["anthropic"])
    for name in kind.__struct_fields__[: -len(kind.__struct_defaults__)] if kind.__struct_defaults__ else whole:
        with pytest.raises(TypeError, match=name):
            kind(**{each: value for each, value in whole.items() if each != name})


INVENTED = """
import invented_provider, test_providers
test_providers.goes_round("invented")
from sash.api.openapi.document import document
from sash.app import ROUTES
assert b'"invented"' in document(ROUTES)
print("all of it")
"""


@pytest.mark.slow
def test_one_file_is_enough_for_a_provider() -> None:
    """A provider that one file declares is read, written, counted and documented."""
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", INVENTED], cwd=here, capture_output=True, text=True, check=False)
    assert done.stdout == "all of it\n", done.stderr


WITHOUT: Final = """
import sash, test_providers
from sash.api.openapi.document import document
from sash.app import ROUTES
from sash.core.providers import PROVIDERS
assert sash.__file__.startswith(HERE) and NAME not in PROVIDERS
assert document(ROUTES).count(b'"%s"' % NAME.encode()) == 0
for form in PROVIDERS:
    if form != "openai":
        test_providers.goes_round(form)
print("works without", NAME)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ollama", "cohere"])
def test_a_provider_is_a_folder_and_its_registration(name: str, tmp_path: Path) -> None:
    """Without its folder, the line that imports it and its place in the list, all else works, and the contract lacks it."""
    ours = Path(sash.__file__).parent
    copy = tmp_path / "sash"
    shutil.copytree(ours, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(copy / "core" / "providers" / name)
    registry = copy / "core" / "providers" / "__init__.py"
    imported = f"from sash.core.providers.{name}.{name} import {name.upper()}\n"
    text = registry.read_text("utf-8")
    assert (text.count(imported), text.count(name.upper())) == (1, 2)
    registry.write_text(re.sub(rf"{name.upper()}, |, {name.upper()}\b", "", text.replace(imported, "")), "utf-8")
    script = WITHOUT.replace("HERE", repr(str(copy))).replace("NAME", repr(name))
    paths = os.pathsep.join((str(tmp_path), str(ours.parent)))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"works without {name}\n", done.stderr
    goes_round(name)

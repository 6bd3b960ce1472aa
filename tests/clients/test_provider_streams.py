"""The stand-in of README answers as the providers do: the SDKs read its replies, its streams and its refusals."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from clients.speakers import SPEAKERS
from conftest import serving_alone
from google.genai import errors
from readme_provider import Provider, Said, provided

Object = dict[str, Any]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
SAID = {
    "words": Said("It is 12:10 ☕ in Robertson 2."),
    "two calls": Said("Let me see.", (("look", '{"day": "today ☕"}'), ("look", "{}")), "hm, let me think"),
    "reasoning that is not signed": Said("Yes.", (), "hm", is_signed=False),
    "nothing": Said(),
}
REQUESTS: dict[str, Object] = {
    "openai": {"messages": [{"role": "user", "content": "q"}]},
    "responses": {"input": [{"role": "user", "content": "q"}]},
    "anthropic": {"messages": [{"role": "user", "content": "q"}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "q"}]}]},
}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ITEM = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
USE = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
PART = {"functionCall": {"id": "c1", "name": "look", "args": {}}, "thoughtSignature": "c2ln"}
WAITING: dict[str, Object] = {
    "openai": {"messages": [*REQUESTS["openai"]["messages"], {"role": "assistant", "tool_calls": [CALL]}]},
    "responses": {"input": [*REQUESTS["responses"]["input"], ITEM]},
    "anthropic": {"messages": [*REQUESTS["anthropic"]["messages"], {"role": "assistant", "content": [USE]}]},
    "gemini": {"contents": [*REQUESTS["gemini"]["contents"], {"role": "model", "parts": [PART]}]},
}
FOREIGN: dict[str, Object] = {
    "openai": {"messages": [{"role": "user", "content": "q", "timestamp": 1}]},
    "responses": {"input": [{"role": "user", "content": "q", "timestamp": 1}]},
    "anthropic": {"messages": [{"role": "user", "content": "q", "timestamp": 1}]},
}
"""Google's SDK itself refuses other members."""
SEAL = "c2VhbC"
"""The beginning of the stand-in's signatures."""
each_form = pytest.mark.parametrize("form", SPEAKERS)


@pytest.fixture(scope="module")
def sash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a server that counts tokens."""
    with serving_alone(tmp_path_factory.mktemp("streams")) as process:
        yield process.url


def address(provider: Provider) -> str:
    return provider.environment["ANTHROPIC_BASE_URL"]


def plain(value: Any) -> Any:
    """Return a reply without ids, which have the reply's number, and without members that are empty or the SDK's own."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    own = ("id", "call_id", "parsed", "parsed_arguments", "encrypted_content", "signature", "thought_signature")
    return {name: plain(each) for name, each in value.items() if name not in own and each not in (None, [], "")}


@each_form
@pytest.mark.parametrize("name", SAID)
def test_a_stream_is_the_reply_in_pieces(sash: str, form: str, name: str) -> None:
    """The SDK puts a stream's pieces together to the reply that it gets whole, with text, calls and the bill."""
    with provided(sash, lambda *_: SAID[name]) as provider:
        speaker = SPEAKERS[form](address(provider))
        whole, streamed = (speaker.ask(REQUESTS[form], streams=each) for each in (False, True))
        speaker.close()
    said = SAID[name]
    assert (whole.text, [call.name for call in whole.calls]) == (said.text, [called for called, _ in said.calls])
    assert (streamed.text, len(streamed.calls), streamed.billed) == (whole.text, len(whole.calls), whole.billed)
    assert plain(streamed.messages) == plain(whole.messages)
    has_seal = form != "openai" and bool(said.thought) and said.is_signed
    assert (SEAL in json.dumps(streamed.messages)) == has_seal


@each_form
@pytest.mark.parametrize("streams", [False, True])
def test_a_refusal_is_the_providers_error(sash: str, form: str, streams: bool) -> None:  # noqa: FBT001
    """Calls without results, and members that the provider does not know, are a 400 that the SDK raises in its words."""
    with provided(sash) as provider:
        speaker = SPEAKERS[form](address(provider))
        for wrong in (WAITING, FOREIGN):
            if form not in wrong:
                continue
            with pytest.raises((openai.BadRequestError, anthropic.BadRequestError, errors.ClientError)) as raised:
                speaker.ask(wrong[form], streams=streams)
            problem: Any = raised.value
            if form == "gemini":
                assert (problem.code, problem.status) == (400, "INVALID_ARGUMENT")
            else:
                body = problem.body["error"] if form == "anthropic" else problem.body
                assert (problem.status_code, body["type"]) == (400, "invalid_request_error")
            assert provider.refusals
        assert provider.requests == []
        speaker.close()

"""Tests windows with openai-messages-token-helper's own truncation cases: Sash keeps the same messages, or more.

For every message the helper adds 3 tokens that OpenAI adds once a request, so near the limit the helper keeps fewer. In
such a case the test prints both results and checks the reason: the helper's count of Sash's window is over the limit, and
Sash's exact count is not.
"""

import json
from typing import Any

import pytest
from recordings import NO_TRUTH, TRUTH

from sash.core.chat.messages import Entry
from sash.core.counts.costs.counting import count_request, reference_tokens
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.models import Model, find_model, unknown_model
from sash.core.law.build import build_window
from sash.core.law.documents.documents import Documents
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, fixed_parts
from sash.core.law.fixed_parts.plan import Plan, WindowSpec
from sash.core.law.history.view import History
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.records import Records
from sash.core.law.selection.window import Window
from sash.problems import UnknownModel, WindowDoesNotFit
from sash.store.data.entries import prepare

RECORDED = TRUTH / "build_messages_cases.json"
if not RECORDED.exists():
    pytest.skip(NO_TRUTH, allow_module_level=True)
CASES: list[dict[str, Any]] = json.loads(RECORDED.read_bytes())
SUCCEEDS = [case for case in CASES if not case["expected_error"]]


def model_of(case: dict[str, Any]) -> Model:
    try:
        return find_model(case["model"])
    except UnknownModel:
        if not case.get("fallback_to_default"):
            raise
        return unknown_model(case["model"])


def kept(case: dict[str, Any]) -> tuple[list[dict[str, Any]], list[int], Window]:
    """Return the request's messages, the indexes of the past messages that are kept, and the window."""
    model = model_of(case)
    settings = ConversationSettings(
        system=case["system_prompt"],
        few_shots=case["few_shots"],
        tools=case["tools"],
        tool_choice=case["tool_choice"],
    )
    parts = fixed_parts(settings)
    new = [{"role": "user", "content": case["new_user_content"]}] if case["new_user_content"] is not None else []
    messages = case["past_messages"] + new
    entries = prepare([Entry(message=m) for m in messages], parts.template, now_ms=0)
    records = Records.of([entry.record for entry in entries])
    column = 0 if model.encoding == "o200k_base" else 1
    tokens = sum(reference_tokens(measure(m))[column] for m in messages)
    terms = WindowSpec(
        plan=Plan(
            WindowQuery(),
            parts,
            model,
            0,
            case["max_tokens"] or min(model.max_input_tokens, model.context_window - 1024),
        ),
        documents=Documents({}, parts.template),
    )
    seqs, asked = range(1, len(messages) + 1), len(messages) - 1 if new else -1
    window = build_window(History(1, records, len(messages), column, tokens, 0, 0, seqs, asked), terms)
    assert isinstance(window, Window)
    sent = [
        {"role": "system", "content": settings.system},
        *case["few_shots"],
        *(messages[seq - 1] for seq in window.seqs),
    ]
    return sent, [seq - 1 for seq in window.seqs if seq <= len(case["past_messages"])], window


def their_count(model: Model, case: dict[str, Any], sent: list[dict[str, Any]]) -> int:
    """Return the helper's count of a request: 3 tokens more for every message but one."""
    count = count_request(model, messages=sent, tools=case["tools"], tool_choice=case["tool_choice"])
    return count.tokens + 3 * (len(sent) - 1)


def fixed_tokens(case: dict[str, Any]) -> int:
    """Return the tokens of the fixed parts and the new message, which the helper sends even over the limit."""
    messages = [{"role": "system", "content": case["system_prompt"]}, *case["few_shots"]]
    messages += [{"role": "user", "content": case["new_user_content"]}] if case["new_user_content"] is not None else []
    tools = {"tools": case["tools"], "tool_choice": case["tool_choice"]}
    return count_request(model_of(case), messages=messages, **tools).tokens


def fits(case: dict[str, Any]) -> bool:
    return case["max_tokens"] is None or fixed_tokens(case) <= case["max_tokens"]


FITTING = [case for case in SUCCEEDS if fits(case)]
OVER = [case for case in SUCCEEDS if not fits(case)]


@pytest.mark.parametrize("case", FITTING, ids=[case["id"] for case in FITTING])
def test_case(case: dict[str, Any]) -> None:
    """A window has the messages that the case expects, or more that fit by the exact count but not by the helper's."""
    sent, places, window = kept(case)
    for place, field, value in case["expected_fields"] or ():
        assert sent[place][field] == value
    if case["expected_messages"] is None:
        return
    theirs = case["kept_past_indices"]
    assert places[len(places) - len(theirs) :] == theirs
    if places == theirs:
        assert sent == case["expected_messages"]
        return
    counted = their_count(model_of(case), case, sent)
    total = window.tokens.total
    print(
        f"{case['id']}: we keep {places}, they {theirs}: {total} exactly, {counted} by theirs, limit {case['max_tokens']}"
    )
    assert total <= case["max_tokens"] < counted


@pytest.mark.parametrize("case", OVER, ids=[case["id"] for case in OVER])
def test_over_the_limit(case: dict[str, Any]) -> None:
    """Fixed parts and a question over the limit raise WindowDoesNotFit; the helper sends them without an error."""
    with pytest.raises(WindowDoesNotFit) as caught:
        kept(case)
    print(f"{case['id']}: {caught.value.detail}")
    assert caught.value.members["needed"] == fixed_tokens(case)


def test_unknown_model() -> None:
    """An unknown model is refused if the case does not ask for a fallback."""
    (case,) = (case for case in CASES if case["expected_error"])
    with pytest.raises(UnknownModel):
        model_of({**case, "model": "nobody-knows-it"})

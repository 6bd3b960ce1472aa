"""Members of providers' own messages: the tables are those of the SDKs, and what is the client's is kept and not sent."""

import json
from typing import Any

import botocore.session
import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from sash.core.providers import PROVIDERS
from sash.core.providers.messages.members import FOREIGN, NO_NAMES, as_it_came

TABLES = [
    pytest.param(form, path, id=f"{form}-{path}")
    for form in ("converse", "gemini")
    for path in PROVIDERS[form].own_members.inner
]


def of_bedrock(path: str) -> set[str]:
    """The members at a path of a block, in botocore's service model."""
    shape: Any = botocore.session.get_session().get_service_model("bedrock-runtime").shape_for("ContentBlock")
    for name in path.split("/"):
        shape = shape.members[name]
        shape = shape.member if shape.type_name == "list" else shape
    return {*shape.members}


def of_google(path: str) -> set[str]:
    """The members at a path of a part, in both spellings, in the SDK's types."""
    model: Any = types.Part
    for name in path.split("/"):
        fields = {camel(each): field for each, field in model.model_fields.items()} | model.model_fields
        found = str(fields[name].annotation)
        model = getattr(types, found.rpartition("types.")[2].rstrip("]'>").partition("]")[0])
    return {spelling for name in model.model_fields for spelling in (name, camel(name))}


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


@pytest.mark.parametrize(("form", "path"), TABLES)
def test_the_tables_are_those_of_the_sdks(form: str, path: str) -> None:
    """Each object inside a block has the members that the provider's SDK knows."""
    known = (of_bedrock if form == "converse" else of_google)(path)
    assert PROVIDERS[form].own_members.inner[path] == known


def nested(path: str, value: Any, lists: list[bool]) -> Any:
    """An object in which these names lead to a value; where ``lists`` says so, by a list."""
    for name, is_list in zip(reversed(path.split("/")), lists, strict=False):
        value = {name: [{}, value] if is_list else value}
    return value


@pytest.mark.parametrize(("form", "path"), TABLES)
@given(data=st.data())
def test_a_member_that_no_sdk_knows_is_kept_and_not_sent(form: str, path: str, data: st.DataObject) -> None:
    """At any depth, it leaves the message and comes back when the message is read; nothing else changes."""
    own, key = PROVIDERS[form].own_members, PROVIDERS[form].shape.parts
    lists = data.draw(st.lists(st.booleans(), min_size=len(path.split("/")), max_size=len(path.split("/"))))
    known = min(own.inner[path])
    part = nested(path, {known: "k", "x_extra": {"a": 1}}, lists)
    without = nested(path, {known: "k"}, lists)
    message, sent = {"role": "user", key: [part, part]}, {"role": "user", key: [without, without]}
    before = json.dumps(message)

    left, gone = own.apart(message, key, NO_NAMES)

    assert (left, json.dumps(message)) == (sent, before)
    assert [each.name for each in gone] == ["x_extra"] * 2
    native = {"format": FOREIGN, "members": [tuple(each) for each in gone]}
    assert as_it_came(json.loads(json.dumps({**left, "native": native}))) == message

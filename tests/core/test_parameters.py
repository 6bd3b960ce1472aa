"""What a new window parameter and a new reason take."""

from typing import Annotated, Any

import click
import msgspec
import pytest
from click.testing import CliRunner
from msgspec import Meta

from sash.api.openapi.components import query_fields
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.reasons import Reason
from sash.windows.request import WindowRequest
from sash_tools.window_command import window_options


class More(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A window's parameters and a new one."""

    min_messages: Annotated[int, Meta(ge=0, description="The smallest number of messages.")] = 0


def test_a_declared_parameter_is_an_option_and_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    """A declared parameter is an option of the command line and in the OpenAPI document, with its bounds and meaning."""
    fields, _ = query_fields(More, {})
    assert fields["min_messages"]["minimum"] == 0
    assert fields["min_messages"]["description"] == "The smallest number of messages. Default: 0."
    monkeypatch.setattr("sash_tools.window_command.WindowQuery", More)

    @click.command()
    @window_options
    def command(**given: Any) -> None:
        click.echo(given["min_messages"])

    assert CliRunner().invoke(command, ["--min-messages", "3"]).output == "3\n"
    assert CliRunner().invoke(command, ["--min-messages", "-1"]).exit_code == 2


def test_the_body_has_every_parameter() -> None:
    """The body of POST /window has each parameter of the query, with its default."""
    body = {field.name: field.default for field in msgspec.structs.fields(WindowRequest)}
    assert {field.name: field.default for field in msgspec.structs.fields(WindowQuery)}.items() <= body.items()


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_has_its_own_text(reason: Reason) -> None:
    """Each reason has a text of its own, so that explain can always say it."""
    assert [each for each in Reason if each.text == reason.text] == [reason]

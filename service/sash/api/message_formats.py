"""The forms in which messages come and are read: providers' and screens'."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from sash.core.providers import CHAT, PROVIDERS
from sash.core.providers.messages.members import Names
from sash.core.providers.reading.native_entries import ReadEntries, read_entries
from sash.core.screens import SCREENS, read_screen

if TYPE_CHECKING:
    _Name = str
else:
    _Name = Literal[(*PROVIDERS, *SCREENS)]

MessageFormat = Annotated[
    _Name,
    Meta(
        title="MessageFormat",
        description="The form of the messages: a provider's, or a screen's: `ui` has UIMessages of the AI SDK, "
        "`ag-ui` messages of AG-UI. A window beside a screen's messages is in the form `openai`.",
    ),
]


def window_form(form: str) -> str:
    """The form of a window beside messages in this form."""
    return CHAT if form in SCREENS else form


def read_own(form: str, values: Sequence[dict[str, Any]], send: Names, allowed: Sequence[str]) -> ReadEntries:
    """The entries of a request's values in a provider's form, or a screen's. Raises as ``read_entries`` does."""
    if form in SCREENS:
        return read_screen(form, values)
    return read_entries(form, values, send=send, allowed=allowed)

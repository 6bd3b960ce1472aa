"""Types that the declarations of requests' arguments share."""

from typing import Annotated, Any

from msgspec import Meta

ProviderObject = Annotated[
    dict[str, Any], Meta(title="ProviderObject", description="An object of the provider's request.")
]
CacheKey = Annotated[
    str, Meta(description="The conversation's key in the provider's prompt cache, with `cache=auto`; costs no tokens.")
]
ToolAsSent = Annotated[
    dict[str, Any],
    Meta(
        title="Tool",
        examples=[{"type": "function", "function": {"name": "find_talk", "parameters": {"type": "object"}}}],
    ),
]
"""A tool's definition as the client wrote it; ``check_tools`` checks it against FunctionTool and CustomTool."""
NamedToolChoice = Annotated[
    dict[str, Any], Meta(title="NamedToolChoice", description="One or several tools, in the provider's format.")
]
ToolChoice = Annotated[
    str | NamedToolChoice,
    Meta(title="ToolChoice", description="`auto`, `none`, `required`, or one tool by its name; sent with the tools."),
]

"""What a form's provider refuses: the member of its requests with the messages, and a check of a request by model."""

from collections.abc import Callable

from validators import anthropic, converse, gemini, interactions, ollama, openai, responses
from validators.logs import Object

JUDGES: dict[str, tuple[str, Callable[[Object, str], list[str]]]] = {
    "openai": ("messages", openai.refused),
    "responses": ("input", responses.refused),
    "anthropic": ("messages", anthropic.refused),
    "gemini": ("contents", gemini.refused),
    "interactions": ("input", interactions.refused),
    "converse": ("messages", converse.refused),
    "ollama": ("messages", ollama.refused),
}

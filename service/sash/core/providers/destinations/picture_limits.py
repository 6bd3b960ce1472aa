"""How many pictures a request may have at hosts, and at makers that have no form of their own: a row each."""

from typing import Final, NamedTuple

from sash.core.providers.destinations.hosts import host_of


class PictureLimit(NamedTuple):
    """The most pictures in a request, for a host, a maker's own servers, or models that their maker alone serves; and where
    that is known from."""

    name: str
    most: int
    evidence: str
    of_models: bool = False
    """Whether the name is how the names of models begin."""


LIMITS: Final = (
    PictureLimit(
        "groq",
        5,
        "console.groq.com/docs/vision: more are 400; so tried (earendil-works/pi 120, Anionex/dsh-vision-toolkit 69)",
    ),
    PictureLimit("mistral", 8, "So tried (earendil-works/pi 120)"),
    PictureLimit(
        "muse-spark",
        50,
        "It answers 400: 'request contains 52 images, exceeding the maximum of 50 allowed per request' "
        "(anomalyco/opencode 48647, 47721, CommandCodeAI/desktop 64)",
        of_models=True,
    ),
)
"""The rows. A server that its owner starts, such as vLLM, has the limit that the owner sets (``SASH_MODELS_FILE``)."""


def pictures_at(model: str, maker: str) -> int | None:
    """Return the limit at the host that a model's name says; at its maker if it says none. None if none is known.

    >>> [pictures_at(name, "mistral") for name in ("pixtral-12b", "groq/pixtral-12b", "vllm/pixtral-12b")]
    [8, 5, None]
    """
    at, name = host_of(model) or maker, model.lower().rpartition("/")[2]
    found = (each.most for each in LIMITS if (name.startswith(each.name) if each.of_models else each.name == at))
    return next(found, None)

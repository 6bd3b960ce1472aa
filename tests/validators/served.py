"""What hosts, makers and templates refuse: the product's own predicates, which read the finished request alone."""

from typing import Any

from sash.core.counts.models.models import countable_model
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.refusals import refusals
from sash.problems import UnknownModel


def refused(form: str, request: dict[str, Any], model: str) -> list[str]:
    """Return the rules of the model's destination that the request breaks, each with its place."""
    try:
        maker = countable_model(model).provider
    except UnknownModel:  # a misspelt name
        return []
    return [f"{each.place}: {each.rule}" for each in refusals(request, meet(form, maker, model))]

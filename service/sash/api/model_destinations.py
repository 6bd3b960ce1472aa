"""What ``GET /models/{id}`` tells of the destinations of a model's requests."""

from sash.api.schemas import DestinationFact, ModelDestination, TakenMedia
from sash.core.counts.models.models import Model
from sash.core.providers import PROVIDERS
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.facts import VALUES
from sash.core.providers.form.provider import Provider
from sash.core.providers.writing.media_types import ANY


def destinations_of(model: Model) -> list[ModelDestination]:
    """A model's destinations: in chat completions, and in the formats that its maker's models are sold in."""
    return [
        _destination(model, each)
        for each in PROVIDERS.values()
        if each.is_chat_form or model.provider in {each.maker, *each.resells}
    ]


def _destination(model: Model, form: Provider) -> ModelDestination:
    found = meet(form.name, model.provider, model.known_as)
    # Other makers' servers of chat completions may take more than OpenAI's.
    takes = ANY if form.is_chat_form and model.provider != form.maker else form.takes
    types = {"pictures": takes.pictures, "files": takes.files, "sounds": takes.sounds}
    return ModelDestination(
        format=form.name,
        host=found.host,
        takes=TakenMedia(**{kind: [] if kind in found.values else _sorted(each) for kind, each in types.items()}),
        facts=[
            DestinationFact(
                kind=fact.kind,
                value=fact.value,
                meaning=VALUES[fact.kind][fact.value],
                of=fact.of,
                name=fact.name,
                evidence=fact.evidence,
                read_on=fact.read_on,
            )
            for fact in found.why
        ],
    )


def _sorted(types: frozenset[str] | None) -> list[str] | None:
    return None if types is None else sorted(types)

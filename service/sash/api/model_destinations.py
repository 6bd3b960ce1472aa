"""What ``GET /models/{id}`` tells of the destinations of a model's requests."""

from sash.api.schemas import DestinationFact, ModelDestination, TakenMedia
from sash.core.counts.models.models import Model
from sash.core.providers import PROVIDERS
from sash.core.providers.destinations.destination import forms_of, meet
from sash.core.providers.destinations.hosts import BILLED_AS_MADE, OF_FORMS, host_of
from sash.core.providers.destinations.rules import RULES
from sash.core.providers.form.provider import Provider
from sash.core.providers.writing.media_types import ANY


def destinations_of(model: Model) -> list[ModelDestination]:
    """A model's destinations: in chat completions, and in each other format that its maker or its host serves it in."""
    return [_destination(model, each) for each in PROVIDERS.values() if _is_served(model, each)]


def _is_served(model: Model, form: Provider) -> bool:
    sellers = {form.maker, *BILLED_AS_MADE.get(form.name, ())}
    is_of_host = form.name in OF_FORMS and OF_FORMS[form.name] == host_of(model.known_as)
    return form.is_chat_form or model.provider in sellers or is_of_host or form.name in forms_of(model.provider)


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
                meaning=RULES[fact.kind].values[fact.value],
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

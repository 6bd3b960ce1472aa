"""Reports of what providers billed, by tenant and model, and corrections of estimates from them.

::

    sash:{tenant/model/<hash>}:calibration   hash    n, sum and worst of predicted - billed; the model's name; a digest of
                                                     the figures that predicted
    sash:{tenant/model/<hash>}:ratios        list    the last 100 reports, newest first: billed / bare, the request's token,
                                                     billed / predicted as it was told, bare, billed

``bare`` is the prediction without its correction. Both keys are kept for 90 days after the last report, and forgotten when
the model's figures change: bills of other predictions tell nothing. A process reads them again after a few seconds, and at
once after its own report.
"""

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import blake2b

import msgspec

from sash.core.counts.models.models import Model, find_model, unknown_model
from sash.core.counts.requests.calibration import (
    MOST_RATIO,
    BilledSize,
    Correction,
    ModelReports,
    bare_tokens,
    correction_of,
)
from sash.problems import StoreFull, StoreUnavailable, UnknownModel
from sash.store.data.layout import PREFIX
from sash.store.data.script_calls import script
from sash.store.redis.client import Client

_KEEP_MS = 90 * 24 * 3600 * 1000
_REMEMBERED = 100
_FRESH_SECONDS = 5.0
_LATE_SECONDS = 60.0
"""A report is expected within this time after its window, so its prediction had one of the corrections of that time."""
_MOST_CACHED = 10_000


class Reports(msgspec.Struct, frozen=True):
    """A model's bills: how many, the sum of errors and the worst one in tokens, and ratios, newest first."""

    count: int
    total: int
    worst: int
    ratios: list[bytes]


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    """One bill, counted once: what is kept of it, '' to read only, and predicted - billed in tokens.

    ``figures`` is a digest of the model's figures.
    """

    token: str
    ratio: float | str
    error: int
    keep_ms: int
    remembered: int
    kept: str
    model: str
    figures: bytes


_report = script("report", _Report, lambda reply: Reports(*reply))


class _Cached(msgspec.Struct):
    calibration: ModelReports
    read_at: float
    corrections: list[tuple[Correction, float]]
    """Recent corrections, each with the end of its use; the last is the present one."""


class Calibrations:
    """Compares predicted with billed tokens for each tenant and model."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._cache: OrderedDict[tuple[str, str], _Cached] = OrderedDict()

    async def report(
        self,
        tenant: str,
        model: Model,
        *,
        billed: int,
        predicted: int,
        correction: Correction | float | None,
        token: str,
        rounded: float = 0.0,
    ) -> ModelReports:
        """Count a report: tokens billed, tokens predicted, and the correction of the prediction, or its margin, if known.

        ``rounded`` is how many parts of the prediction were rounded up, if it is known.

        Raises StoreUnavailable, StoreFull.
        """
        cached = await self._current(tenant, model)
        recent = [each for each, _ in cached.corrections]
        match correction:
            case Correction():
                recent = [correction]
            case float():
                recent = [each for each in recent if each.margin == correction] or [Correction(correction)]
        bare = bare_tokens(billed, predicted, recent, cached.calibration, rounded)
        ratio = round(min(billed / bare, MOST_RATIO), 4)
        kept = f"{round(billed / max(1, predicted), 6)} {bare} {billed}"
        calibration = await self._ask(tenant, model, token, ratio, predicted - billed, kept)
        return self._remember(tenant, model, calibration).calibration

    async def read(self, tenant: str, model: Model) -> ModelReports:
        """Return the reports of a model, at most a few seconds old. Raises StoreUnavailable."""
        return (await self._current(tenant, model)).calibration

    async def correct(self, tenant: str, models: Mapping[str, Model], name: str | None) -> Mapping[str, Model]:
        """Return ``models`` with the model called ``name`` corrected by its reports, if it is estimated and has any.

        Without an answer of the store the model stays uncorrected, so that windows are still served.
        """
        model = estimated(name, models)
        if name is None or model is None:
            return models
        try:
            cached = await self._current(tenant, model)
        except (StoreUnavailable, StoreFull):
            return models
        if cached.calibration.reports == 0:
            return models
        return {**models, name: corrected_by(model, cached.corrections[-1][0])}

    async def _current(self, tenant: str, model: Model) -> _Cached:
        cached = self._cache.get((tenant, model.id))
        if cached is None or time.monotonic() - cached.read_at > _FRESH_SECONDS:
            cached = self._remember(tenant, model, await self._ask(tenant, model))
        return cached

    async def _ask(
        self, tenant: str, model: Model, token: str = "", ratio: float | str = "", error: int = 0, kept: str = ""
    ) -> ModelReports:
        tag = f"{PREFIX}{{{tenant}/model/{blake2b(model.id.lower().encode(), digest_size=16).hexdigest()}}}:"
        keys = (tag + "calibration", tag + "ratios")
        report = _report(
            keys,
            token=token,
            ratio=ratio,
            error=error,
            keep_ms=_KEEP_MS,
            remembered=_REMEMBERED,
            kept=kept,
            model=model.id,
            figures=_figures(model),
        )
        known = await self._client.run(report)
        return _reports(known.count, known.total, known.worst, known.ratios)

    async def each(self) -> AsyncIterator[tuple[str, str, ModelReports]]:
        """Yield the tenant, the model's name and the reports of every model that has any. Raises StoreUnavailable.

        Reports of versions that did not keep the name are left out.
        """
        async for name in self._client.scan(f"{PREFIX}{{*}}:calibration"):
            keys = f"{PREFIX}{{{name}}}:"
            read = ("HMGET", keys + "calibration", "model", "n", "sum", "worst"), ("LRANGE", keys + "ratios", 0, -1)
            (model, *figures), kept = await self._client.commands(read)
            if model:
                count, total, worst = (int(each or 0) for each in figures)
                yield name.partition("/")[0], model.decode(), _reports(count, total, worst, kept)

    def _remember(self, tenant: str, model: Model, calibration: ModelReports) -> _Cached:
        now, key = time.monotonic(), (tenant, model.id)
        present = applied_correction(model, calibration)
        before = self._cache.pop(key, None)
        corrections: list[tuple[Correction, float]] = []
        if before is not None:
            *earlier, (last, _) = before.corrections
            corrections = [(each, until) for each, until in earlier if until > now - _LATE_SECONDS]
            if last != present:
                corrections.append((last, now))
        cached = _Cached(calibration, now, [*corrections, (present, float("inf"))])
        self._cache[key] = cached
        if len(self._cache) > _MOST_CACHED:
            self._cache.popitem(last=False)
        return cached


def _figures(model: Model) -> bytes:
    """A digest of the figures of a model that decide its predictions."""
    figures = (model.rules, model.margin, model.ratios, model.counted_with)
    return blake2b(msgspec.json.encode(figures), digest_size=8).hexdigest().encode()


def _reports(count: int, total: int, worst: int, kept: Sequence[bytes]) -> ModelReports:
    """The reports of a model, from what the store keeps of each, newest first."""
    found = [each.split() for each in reversed(kept)]
    told = tuple(float(each[2]) for each in found if each[2:])
    sizes = tuple(BilledSize(float(each[3]), int(each[4])) for each in found if each[4:])
    ratios = tuple(float(each[0]) for each in found)
    return ModelReports(count, total, worst, ratios, told, sizes if len(sizes) == len(found) else ())


def applied_correction(model: Model, calibration: ModelReports) -> Correction:
    """Return the correction of a model with these reports.

    An exact model has none but its margin, nor has one that is counted with its maker's vocabulary while no bill is higher.
    """
    if model.exact or (model.is_evident and max(calibration.ratios, default=0.0) <= 1.0):
        return Correction(model.margin)
    return correction_of(calibration, model.margin, model.priming)


def drifts(model: Model, known: ModelReports) -> bool:
    """Return whether bills contradict a model's counts: an exact one's by over 1 %, an estimate's by being above them."""
    return known.is_drifting if model.exact else known.is_often_short


def estimated(name: str | None, models: Mapping[str, Model]) -> Model | None:
    """Return the model of this name if its tokens are estimated, so that reports may correct it."""
    try:
        model = None if name is None else find_model(name, models)
    except UnknownModel:
        return None
    return None if model is None or model.exact else model


def corrected_by(model: Model, correction: Correction) -> Model:
    """Return the model with this correction in place of its margin."""
    margin, constant = correction
    return msgspec.structs.replace(model, margin=margin, correction=margin, constant=constant)


def model_or_unknown(name: str, models: Mapping[str, Model]) -> Model:
    """Return the model of this name, or an estimate for an unknown name."""
    try:
        return find_model(name, models)
    except UnknownModel:
        return unknown_model(name)

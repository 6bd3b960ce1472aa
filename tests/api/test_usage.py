"""Reports of billed tokens: figures for each model, and corrections of estimates."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import append, etag_of, problem, statistics, user
from structlog.testing import capture_logs

ESTIMATED = "claude-sonnet-4-5"


async def report(client: httpx.AsyncClient, conversation: str, **body: Any) -> httpx.Response:
    return await client.post(f"/conversations/{conversation}/usage", json=body)


async def window(client: httpx.AsyncClient, conversation: str, model: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"/conversations/{conversation}/window?model={model}")).json()
    return found


async def test_figures(client: httpx.AsyncClient, conversation: str) -> None:
    """A model shows the number of its reports, and the mean and the worst of predicted minus billed tokens."""
    model = f"ft:gpt-4o:{conversation}"
    await append(client, conversation, user("hello"))

    await report(client, conversation, model=model, prompt_tokens=812, window_tokens=809)
    answer = await report(client, conversation, model=model, prompt_tokens=100, window_tokens=101)

    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "model": model,
        "error": 1,
        "calibration": {"n": 2, "mean_error": -1.0, "worst_error": -3, "correction": 1.0, "constant": 0},
    }
    assert (await client.get(f"/models/{model}")).json()["calibration"] == answer.json()["calibration"]


async def test_how_predictions_did(client: httpx.AsyncClient, conversation: str) -> None:
    """A model shows median and 95th percentile of billed / predicted, the share that was short, and whether it drifts."""
    model = f"ft:gpt-4o:{conversation}"
    await append(client, conversation, user("hello"))
    assert (await client.get(f"/models/{model}")).json()["predictions"] is None

    for billed in (1000, 1000, 1000, 1030):
        await report(client, conversation, model=model, prompt_tokens=billed, window_tokens=1000)
    few = (await client.get(f"/models/{model}")).json()["predictions"]
    for _ in range(6):
        await report(client, conversation, model=model, prompt_tokens=1030, window_tokens=1000)
    many = (await client.get(f"/models/{model}")).json()["predictions"]

    assert few == {"count": 4, "median_ratio": 1.0, "p95_ratio": 1.03, "short_share": 0.25, "drifts": False}
    assert many == {"count": 10, "median_ratio": 1.03, "p95_ratio": 1.03, "short_share": 0.7, "drifts": True}


async def test_without_reports(client: httpx.AsyncClient, conversation: str) -> None:
    """A model without reports has no calibration, and its windows have no correction."""
    model = f"{conversation}/{ESTIMATED}"
    await append(client, conversation, user("hello"))
    assert (await client.get(f"/models/{model}")).json()["calibration"] is None
    assert "correction" not in await window(client, conversation, model)


async def test_an_estimate_is_corrected(client: httpx.AsyncClient, conversation: str) -> None:
    """After a bill above its prediction, an estimated model's counts are higher, and its windows show the correction."""
    model = f"{conversation}/{ESTIMATED}"
    await append(client, conversation, user("hello there, " * 200))
    before = await window(client, conversation, model)
    billed = int(before["tokens"]["total"] * 1.4)

    await report(client, conversation, model=model, prompt_tokens=billed, window_tokens=before["tokens"]["total"])

    after = await window(client, conversation, model)
    shown = (await client.get(f"/models/{model}")).json()
    assert after["tokens"]["total"] >= billed
    assert after["correction"] == shown["calibration"]["correction"] > shown["margin"]
    assert after["exact"] is False
    stateless = await client.post("/window", json={"model": model, "messages": [user("hello there, " * 200)]})
    assert stateless.json()["tokens"] == after["tokens"]
    count = {"model": model, "messages": [{"role": "user", "content": "hello there, " * 200}]}
    assert (await client.post("/count", json=count)).json()["tokens"] == after["tokens"]["total"]


async def test_a_hosts_prompt_is_learnt(client: httpx.AsyncClient, conversation: str) -> None:
    """A prompt of 1,500 tokens that a host puts before every request is counted from the third request on.

    It shows in the model and in the window's priming.
    """
    model = f"{conversation}/{ESTIMATED}"
    path = f"/conversations/{conversation}/window?model={model}"
    messages: list[dict[str, Any]] = []
    bare, totals = [], []
    for turn in range(4):
        said = "hello there, " * 40 * (turn + 1)
        messages.append({"role": "user", "content": said})
        await append(client, conversation, user(said))
        sent = (await client.get(path)).json()
        count = {"model": ESTIMATED, "messages": messages}
        bare.append((await client.post("/count", json=count)).json()["tokens"])
        totals.append(sent["tokens"]["total"])
        if turn < 3:
            billed = 1_500 + bare[-1]
            answer = await report(client, conversation, model=model, prompt_tokens=billed, receipt=sent["receipt"])
            assert answer.status_code == 200, answer.text

    assert 1_500 + bare[2] <= totals[2] <= 1.05 * (1_500 + bare[2])
    assert 1_500 + bare[3] <= totals[3] <= 1.05 * (1_500 + bare[3])
    known = (await client.get(f"/models/{model}")).json()["calibration"]
    assert (known["n"], 1_400 <= known["constant"] <= 1_500) == (3, True)
    assert sent["tokens"]["priming"] >= known["constant"]


async def _short_of(client: httpx.AsyncClient, model: str) -> float:
    """Return the number of a model's reports above their prediction, from ``GET /metrics``."""
    series = f'sash_predictions_total{{model="{model}",outcome="under"}}'
    return sum(
        float(line.split()[-1]) for line in (await client.get("/metrics")).text.splitlines() if line.startswith(series)
    )


async def test_one_short_bill_shows_at_once(new_client: httpx.AsyncClient, conversation: str) -> None:
    """A report above its prediction is a warning in the log and a count in the metrics, and raises the correction."""
    await append(new_client, conversation, user("hello"))
    before = await _short_of(new_client, "qwen3-max")
    with capture_logs() as lines:
        await report(new_client, conversation, model="qwen3-max", prompt_tokens=50, window_tokens=50)
        answer = await report(new_client, conversation, model="qwen3-max", prompt_tokens=62, window_tokens=50)

    (line,) = [line for line in lines if line["event"] == "a request was billed above its prediction"]
    assert line["log_level"] == "warning"
    told = {name: line[name] for name in ("counting", "predicted", "billed", "short_tokens")}
    assert told == {"counting": "estimate", "predicted": 50, "billed": 62, "short_tokens": 12}
    assert await _short_of(new_client, "qwen3-max") == before + 1
    assert answer.json()["calibration"]["correction"] > 1.24


@pytest.mark.parametrize("tells", [True, False])
async def test_reports_settle(client: httpx.AsyncClient, conversation: str, *, tells: bool) -> None:
    """Repeated bills at the same rate keep one correction, whether a report states its correction or not, even if late."""
    model = f"{conversation}/{ESTIMATED}"
    await append(client, conversation, user("hello there, " * 200))
    first = await window(client, conversation, model)
    billed = int(first["tokens"]["total"] * 1.4)
    corrections = []
    for n in range(30):
        sent = first if n % 3 == 0 else await window(client, conversation, model)
        told = {"correction": sent["correction"]} if tells and "correction" in sent else {}
        if tells and not told:
            told = {"correction": (await client.get(f"/models/{model}")).json()["margin"]}
        total = sent["tokens"]["total"]
        answer = await report(client, conversation, model=model, prompt_tokens=billed, window_tokens=total, **told)
        corrections.append(answer.json()["calibration"]["correction"])

    assert max(corrections) <= min(corrections) * 1.01
    assert billed <= (await window(client, conversation, model))["tokens"]["total"] <= billed * 1.04


async def test_a_cheap_model_is_lowered_gently(client: httpx.AsyncClient, conversation: str) -> None:
    """After bills below its prediction, a model's counts are lowered step by step, and never below the bill."""
    model = f"{conversation}/{ESTIMATED}"
    await append(client, conversation, user("hello there, " * 200))
    totals = [(await window(client, conversation, model))["tokens"]["total"]]
    billed = int(totals[0] * 0.9)
    for _ in range(12):
        sent = await window(client, conversation, model)
        await report(client, conversation, model=model, prompt_tokens=billed, window_tokens=sent["tokens"]["total"])
        totals.append((await window(client, conversation, model))["tokens"]["total"])

    assert totals == sorted(totals, reverse=True)
    assert totals[1] > (totals[0] + billed) / 2
    assert billed <= totals[-1] <= billed * 1.04


async def test_a_tenant_of_its_own(client: httpx.AsyncClient, conversation: str, server: Any) -> None:
    """Reports are stored under their tenant and expire."""
    model = f"{conversation}/{ESTIMATED}"
    await append(client, conversation, user("hello"))
    await report(client, conversation, model=model, prompt_tokens=9, window_tokens=9)
    keys = list(server.scan_iter("sash:{default/model/*"))
    assert len(keys) >= 2
    assert all(server.pttl(key) > 0 for key in keys)


async def test_no_304_for_an_estimate(client: httpx.AsyncClient, conversation: str) -> None:
    """A conversation's ETag gives no 304 for an estimated model, whose windows do not depend on the version alone."""
    await append(client, conversation, user("hello"))
    path, known = f"/conversations/{conversation}/window?model=", {"If-None-Match": await etag_of(client, conversation)}
    assert (await client.get(f"{path}gpt-4o", headers=known)).status_code == 304
    assert (await client.get(f"{path}{ESTIMATED}", headers=known)).status_code == 200


async def test_a_drift_is_told_once(client: httpx.AsyncClient, conversation: str) -> None:
    """Ten reports of an exact model that are 2% off give one warning, with the figures and the published name."""
    model = f"ft:gpt-4o:{conversation}"
    await append(client, conversation, user("hello"))
    with capture_logs() as logs:
        for _ in range(12):
            await report(client, conversation, model=model, prompt_tokens=1020, window_tokens=1000)

    warnings = [line for line in logs if line["log_level"] == "warning"]
    assert [(line["model"], line["reports"], line["mean_error"]) for line in warnings] == [("gpt-4o", 10, -20.0)]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"model": "gpt-4o", "prompt_tokens": -1, "window_tokens": 1},
        {"model": "gpt-4o", "prompt_tokens": 1, "window_tokens": 0},
        {"model": "gpt-4o", "prompt_tokens": 1.5, "window_tokens": 1},
        {"model": "gpt-4o", "prompt_tokens": 1, "window_tokens": 1, "x": 1},
    ],
)
async def test_wrong_reports(client: httpx.AsyncClient, conversation: str, body: Any) -> None:
    """An invalid report is 400, one for an absent conversation 404, and one with an outdated ``If-Match`` 412."""
    good = {"model": "gpt-4o", "prompt_tokens": 1, "window_tokens": 1}
    assert (await report(client, conversation, **good)).status_code == 404
    await append(client, conversation, user("hello"))
    assert (await report(client, conversation, **body)).status_code == 400
    path = f"/conversations/{conversation}/usage"
    assert (await client.post(path, json=good, headers={"If-Match": '"2"'})).status_code == 412


@pytest.mark.parametrize(
    ("billed", "predicted", "told"),
    [
        (100_000_000, 10, {}),
        (6_001, 100, {}),
        (100, 100, {"correction": 900}),
        (20_000_000, 20_000_000, {}),
    ],
)
async def test_absurd_reports(
    client: httpx.AsyncClient, conversation: str, billed: int, predicted: int, told: Any
) -> None:
    """A report that cannot be the bill of its window is 422 and does not change the model's calibration.

    Otherwise one mistake of a client could empty its next hundred windows.
    """
    model = f"{conversation}/{ESTIMATED}"
    await append(client, conversation, user("hello"))
    await report(client, conversation, model=model, prompt_tokens=100, window_tokens=100)
    before = (await client.get(f"/models/{model}")).json()

    body = {"model": model, "prompt_tokens": billed, "window_tokens": predicted, **told}
    answer = await client.post(f"/conversations/{conversation}/usage", json=body)

    assert problem(answer, 422, "unprocessable")["errors"][0]["pointer"] == "#/prompt_tokens"
    assert (await client.get(f"/models/{model}")).json() == before


COMPACTED = [
    {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500},
    {"type": "message", "input_tokens": 23_000, "output_tokens": 1000, "cache_read_input_tokens": 0},
]


async def test_a_bill_with_a_compaction_corrects_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """Anthropic's example: the bill is of a compacted conversation, so it says nothing about the window's prediction."""
    model = f"{conversation}/{ESTIMATED}"
    await append(client, conversation, user("hello"))
    body = {"model": model, "input_tokens": 45_000, "window_tokens": 179_000, "iterations": COMPACTED}

    answer = await report(client, conversation, **body)

    assert answer.status_code == 200, answer.text
    assert (answer.json()["compared"], answer.json()["error"]) == (False, 0)
    assert answer.json()["calibration"]["n"] == 0
    assert (await client.get(f"/models/{model}")).json()["calibration"] is None


async def test_of_several_passes_the_first_is_the_window_s(client: httpx.AsyncClient, conversation: str) -> None:
    """In a loop of tools that Anthropic runs, the sum of all passes is billed; the first one read the window as it was."""
    model = f"{conversation}/{ESTIMATED}"
    await append(client, conversation, user("hello"))
    first = {"type": "message", "input_tokens": 700, "cache_read_input_tokens": 300, "cache_creation_input_tokens": 0}
    passes = [{"type": "advisor_message", "input_tokens": 9000, "model": "claude-opus-4-6"}, first]
    passes += [{**first, "input_tokens": 900}, *COMPACTED]
    body = {"model": model, "input_tokens": 25_200, "window_tokens": 1010, "iterations": passes}

    answer = await report(client, conversation, **body)

    assert answer.json()["error"] == 10
    assert answer.json()["calibration"]["n"] == 1


DROPPED = {"type": "thinking_dropped", "reason": "prefix_binding_mismatch", "path": "messages.1.content.0"}


@pytest.mark.parametrize(
    ("told", "compared"),
    [
        ({"input_transformations": [DROPPED]}, False),
        ({"input_transformations": [{**DROPPED, "type": "thinking_mismatch_allowed"}]}, True),
        ({"input_transformations": []}, True),
        ({"cache_miss_reason": {"type": "messages_changed", "cache_missed_input_tokens": 900}}, True),
    ],
)
async def test_a_bill_of_less_than_the_window_corrects_nothing(
    client: httpx.AsyncClient,
    conversation: str,
    told: dict[str, Any],
    compared: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Where the provider dropped reasoning, the bill does not tell what the window cost. A cache miss changes no bill."""
    model = f"{conversation}/{ESTIMATED}"
    await append(client, conversation, user("hello"))

    answer = await report(client, conversation, model=model, input_tokens=1000, window_tokens=1010, **told)

    assert answer.json().get("compared", True) is compared
    assert (answer.json()["error"], answer.json()["calibration"]["n"]) == ((10, 1) if compared else (0, 0))


async def test_what_is_reported_beside_tokens_is_in_the_statistics(
    new_client: httpx.AsyncClient, conversation: str
) -> None:
    """/stats and /metrics tell dropped reasoning by cause and the reasons of cache misses, in both vendors' words."""
    await append(new_client, conversation, user("hello"))
    before = (await statistics(new_client))["start"]["all"]
    billed = {"window_tokens": 100, "prompt_tokens": 100}
    dropped = [
        {"type": "thinking_dropped", "reason": "prefix_binding_mismatch", "path": "messages.1.content.0"},
        {"type": "thinking_dropped", "reason": "model_binding_mismatch", "path": "messages.3.content.0"},
        {"type": "thinking_mismatch_allowed", "reason": "prefix_binding_mismatch", "path": "messages.5.content.0"},
    ]
    miss = {"type": "messages_changed", "cache_missed_input_tokens": 5000}
    claude = {
        "model": f"{conversation}/{ESTIMATED}",
        **billed,
        "input_transformations": dropped,
        "cache_miss_reason": miss,
    }
    removed = [{"type": "reasoning", "action": "removed", "id": "rs_1", "reason": "prefix_mismatch"}]
    missed = {"type": "cache_miss", "reason": "input_changed", "cache_missed_tokens": 900}
    gpt = {"model": "gpt-5.2", **billed, "input_transformations": removed, "cache_miss_reason": missed}
    for body in (claude, gpt, {**gpt, "input_transformations": [], "cache_miss_reason": {"type": "cache_hit"}}):
        assert (await report(new_client, conversation, **body)).status_code == 200

    now = (await statistics(new_client))["start"]["all"]
    added = {name: now["reasoning"][name] - before["reasoning"][name] for name in now["reasoning"]}
    assert added == {"dropped": 3, "prefix": 2, "model": 1, "organization": 0, "end_user": 0, "turn": 0, "other": 0}
    reasons = {each["reason"]: each["count"] for each in now["cache"]["misses"]}
    assert {"messages_changed", "input_changed"} <= reasons.keys()
    assert "cache_hit" not in reasons
    metrics = (await new_client.get("/metrics")).text
    assert 'sash_reasoning_dropped_total{cause="prefix",model="gpt-5.2"}' in metrics
    assert 'sash_prompt_cache_misses_total{model="gpt-5.2",reason="input_changed"}' in metrics


@pytest.mark.parametrize(
    "wrong",
    [
        {"iterations": [{"type": "message", "input_tokens": -1}]},
        {"iterations": [{"input_tokens": 1}]},
        {"input_transformations": [{"reason": "prefix_mismatch"}]},
        {"cache_miss_reason": 5},
    ],
)
async def test_a_wrong_diagnosis_is_refused(
    client: httpx.AsyncClient, conversation: str, wrong: dict[str, Any]
) -> None:
    """A report whose parts are not what providers report is 400, with the place."""
    await append(client, conversation, user("hello"))
    answer = await report(client, conversation, model=ESTIMATED, prompt_tokens=10, window_tokens=10, **wrong)
    assert problem(answer, 400, "bad-request")["errors"][0]["pointer"].startswith(f"#/{next(iter(wrong))}")

"""Conversations of several agents, with documents, compactions and large results for some of them."""

import random

from faults.fuzz.logs import entry
from faults.fuzz.parameters import AGENTS, window
from faults.fuzz.scripts import Object, Script, Sent
from validators.conversations import SETTINGS


def views(chance: random.Random) -> Script:
    """Several agents, whose calls have large results, whose documents and compactions are for some of them."""
    sent: list[Sent] = []
    for number in range(chance.randint(2, 9)):
        sent += _agents_turn(chance, number)
    view = {"view": chance.choice((*AGENTS, "user", "nobody"))}
    asked = [window(chance, **(view if n else {})) for n in range(4)]
    for each in asked:
        if chance.random() < 0.6:
            each |= {"format": "openai", "model": "gpt-4o", "max_tokens": chance.choice((60, 100, 150, 200, 300, 600))}
        if chance.random() < 0.3:
            each["cache"] = "auto"
    return Script("views", dict(chance.choice(SETTINGS)), sent, windows=asked)


def _parties(chance: random.Random) -> Object:
    found: Object = {}
    if chance.random() < 0.6:
        found["author"] = chance.choice(AGENTS)
    if chance.random() < 0.35:
        found["audience"] = chance.sample((*AGENTS, "user"), chance.randint(1, 2))
    return found


def _agents_turn(chance: random.Random, number: int) -> list[Sent]:
    parties = _parties(chance)
    text = f"zq{number}z " + "day " * chance.choice((0, 3, 30, 200))
    kind = chance.choice(("question", "question", "reply", "calls", "calls", "compaction", "items", "system"))
    if kind == "question":
        parties = {name: value for name, value in parties.items() if name == "audience"}
        return [("openai", [entry({"role": "user", "content": text}, **parties, grounding=grounding(chance))])]
    if kind in ("reply", "system"):
        role = "assistant" if kind == "reply" else "system"
        return [("openai", [entry({"role": role, "content": text}, **parties)])]
    if kind == "compaction":
        block = {"type": "compaction", "content": text}
        return [("anthropic", [entry({"role": "assistant", "content": [block]}, **parties)])]
    if kind == "items":
        item = {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": "gAAAAA" + "d" * 200}
        return [("responses", [entry(item, **parties)])]
    ids = [f"c{number}-{n}" for n in range(chance.randint(1, 3))]
    functions = [{"id": each, "type": "function", "function": {"name": "look", "arguments": "{}"}} for each in ids]
    asked = {"role": "assistant", "content": chance.choice((None, text)), "tool_calls": functions}
    told = [
        entry(
            {"role": "tool", "tool_call_id": each, "content": "word " * chance.choice((1, 5, 60, 400, 1800))}, **parties
        )
        for each in ids[: len(ids) - (chance.random() < 0.2)]
    ]
    sent: list[Sent] = [("openai", [entry(asked, **parties)]), *(("openai", [each]) for each in told)]
    return sent


def work_of_one(chance: random.Random) -> Script:
    """An agent that compacted and called tools with large results is asked, with little room."""
    agent = chance.choice(AGENTS)
    block = {"type": "compaction", "content": "zq1z " + "day " * chance.choice((1, 40))}
    sent: list[Sent] = [("anthropic", [entry({"role": "assistant", "content": [block]}, author=agent)])]
    if chance.random() < 0.4:
        sent.insert(chance.randrange(2), ("openai", [{"role": "user", "content": "zq2z " * chance.choice((1, 30))}]))
    for number in range(chance.choice((1, 1, 2))):
        ids = [f"c{number}-{n}" for n in range(chance.randint(1, 3))]
        functions = [{"id": each, "type": "function", "function": {"name": "look", "arguments": "{}"}} for each in ids]
        asked = {"role": "assistant", "content": None, "tool_calls": functions}
        sent.append(("openai", [entry(asked, author=agent if chance.random() < 0.8 else chance.choice(AGENTS))]))
        for each in ids:
            told = {"role": "tool", "tool_call_id": each, "content": "word " * chance.choice((1, 40, 400, 1800))}
            sent.append(("openai", [entry(told, author=agent if chance.random() < 0.8 else None)]))
    if chance.random() < 0.8:
        sent.append(("openai", [{"role": "user", "content": "zq9z " + "day " * chance.choice((1, 30))}]))
    tight = {"max_tokens": chance.choice((40, 60, 100, 150, 200, 300)), "uncarried": "drop", "view": agent}
    return Script("an agent's work", {}, sent, windows=[window(chance, **tight) for _ in range(3)])


def documents_for_agents(chance: random.Random) -> Script:
    """Questions with documents, each for one agent, read with the hints of the provider's cache."""
    sent: list[Sent] = []
    for number in range(chance.randint(2, 5)):
        question = {"role": "user", "content": f"zq{number}z " * chance.choice((1, 20))}
        to = {"audience": [chance.choice(AGENTS)]} if chance.random() < 0.7 else {}
        sent.append(("openai", [entry(question, **to, grounding=grounding(chance, 0.8))]))
        if chance.random() < 0.7:
            sent.append(
                ("openai", [entry({"role": "assistant", "content": f"answer {number}"}, author=chance.choice(AGENTS))])
            )
    wide = {"max_tokens": chance.choice((100, 400, 2_000, 100_000)), "uncarried": "drop"}
    asked = [window(chance, **wide, cache=each, view=chance.choice(AGENTS)) for each in ("auto", "auto", "none")]
    return Script("documents for agents", {}, sent, windows=asked)


def grounding(chance: random.Random, share: float = 0.4) -> Object:
    if chance.random() > share:
        return {}
    return {"documents": [_document(chance, number) for number in range(chance.randint(1, 4))]}


def _document(chance: random.Random, number: int) -> Object:
    made: Object = {
        "text": f"zd{number}z " + chance.choice(("A talk. ", "요약 ", "word ")) * chance.choice((1, 8, 60, 400, 1500))
    }
    if chance.random() < 0.5:
        made["id"] = f"d-{chance.randrange(4)}"
    more = chance.random()
    if more < 0.2:
        made["short"] = "brief"
    elif more < 0.4:
        made["levels"] = ["word " * 60, "word"]
    elif more < 0.5:
        made |= {"title": "A title", "url": "https://x.org/d", "metadata": {"page": number}}
    return made

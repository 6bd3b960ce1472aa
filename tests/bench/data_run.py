"""Real conversations through the real server, turn by turn, every window counted again: ``python -m tests.bench.data_run``.

The server is the one that README's first command starts. For each conversation of the data set
(``tests/recordings.py``), or of the named files, in the same form and with an id for each entry:

1. ``sash import`` stores the whole conversation, twice; the second time nothing is new.
2. Its entries are appended again, turn by turn; after every user message, one window for gpt-4o-mini is requested at each
   budget. Each window is counted with tiktoken and the published rule, implemented again below, and checked: it is within
   the budget, holds the question and the newest history in order, and has no tool result without its call.
3. During the run the server is killed (SIGKILL) and later stopped (SIGTERM). After each new start, every acknowledged entry
   is read back, and every conversation's last windows are requested again and compared byte for byte.

Prints tables; the exit status is 1 when any check fails.
"""

import argparse
import gzip
import hashlib
import importlib.util
import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import msgspec
import tiktoken
import tiktoken_ext.openai_public
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.recordings import DATA, NO_DATA
from tests.rigs.servers import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = "gpt-4o-mini"
BUDGETS: tuple[int | None, ...] = (1_000, 4_000, 16_000, None)  # None: the largest that the model allows
_START_SECONDS = 60
_BATCH = 100


def load_conversations(paths: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """Return the conversations in the files, or else in the data set; none where it is absent."""
    files = paths or sorted(DATA.glob("sgd_*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


# ---- the server, as README starts it


def readme_command() -> list[str]:
    """Return the last step of README's first command, for this environment; the steps before it only install."""
    text = (ROOT / "README.md").read_text()
    line = next(line for line in text.splitlines() if line.startswith("python3 -m venv") and "sash serve" in line)
    words = shlex.split(line.rsplit("&&", 1)[1])
    return [word.replace(".venv/bin/", f"{Path(sys.executable).parent}/") for word in words]


class Server:
    """The server process on one data directory; it may be ended and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def start(self) -> None:
        options = ["--port", str(self._port), "--data-dir", str(self._folder / "data")]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SASH_")}
        with (self._folder / "serve.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*readme_command(), *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        give_up = time.monotonic() + _START_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            try:
                if self.client.get("/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise RuntimeError((self._folder / "serve.log").read_text())

    def end(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(60)

    def restart(self, how: signal.Signals) -> None:
        self.end(how)
        self.client.close()
        self.client = httpx.Client(base_url=self.url, timeout=60)
        self.start()


# ---- an independent count


class Reference:
    """Counts a request's tokens from tiktoken and the published rules, without the service's code.

    The cookbook's rule: 3 for each message, plus the tokens of its role and content; 3 for the reply. The cookbook does not
    cover tool calls; the rule for those fits recorded bills: 13 for a call, its name, ``functions.`` with its name less 1,
    and its arguments without spaces; a tool result costs its text. Tool definitions are the difference of two counts.
    """

    def __init__(self, folder: Path) -> None:
        os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
        origin = importlib.util.find_spec("bpe_openai")
        assert origin is not None and origin.origin is not None  # noqa: PT018
        source = inspect.getsource(tiktoken_ext.openai_public)
        url = next(u for u in re.findall(r'"(https://\S+\.tiktoken)"', source) if "o200k_base" in u)
        ranks = gzip.decompress((Path(origin.origin).parent / "data" / "o200k_base.tiktoken.gz").read_bytes())
        (folder / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()).write_bytes(ranks)
        self._codec = tiktoken.get_encoding("o200k_base")
        self._known: dict[bytes, int] = {}

    def request(self, messages: Sequence[bytes]) -> int:
        return 3 + sum(self._message(message) for message in messages)

    def _message(self, encoded: bytes) -> int:
        if encoded not in self._known:
            self._known[encoded] = self._cost(json.loads(encoded))
        return self._known[encoded]

    def _cost(self, message: dict[str, Any]) -> int:
        content = self._text(message.get("content") or "")
        if message["role"] == "tool":
            return content
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        assert len(calls) <= 1, "the data has no parallel calls, and this rule does not cover them"
        if not calls:
            return 3 + self._text(message["role"]) + content
        name = self._text(calls[0]["name"]) + self._text("functions." + calls[0]["name"]) - 1
        arguments = json.dumps(json.loads(calls[0]["arguments"]), ensure_ascii=False, separators=(",", ":"))
        text = 3 + self._text(message["role"]) + content if content else 0
        return 13 + name + self._text(arguments) + text

    def _text(self, text: str) -> int:
        return len(self._codec.encode_ordinary(text))


# ---- one conversation, turn by turn


@dataclass
class Figures:
    """A row of the table: totals of the windows at one budget."""

    windows: int = 0
    refused: int = 0
    tokens: int = 0
    filled: float = 0.0
    dropped_messages: int = 0
    dropped_tokens: int = 0
    saved_tokens: int = 0


@dataclass
class Run:
    """The results of a run."""

    conversations: int = 0
    messages: int = 0
    documents: int = 0
    imported: dict[str, Any] = field(default_factory=dict)
    budgets: dict[int | None, Figures] = field(default_factory=lambda: {budget: Figures() for budget in BUDGETS})
    wrong: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)


class _Window(msgspec.Struct):
    budget: int
    tokens: dict[str, int]
    dropped: dict[str, int]
    kept: dict[str, int | None]
    request: "_Request"


class _Request(msgspec.Struct):
    messages: list[msgspec.Raw]
    tools: list[Any] = []


_window = msgspec.json.Decoder(_Window)


@dataclass
class Lived:
    """A conversation during the run: how many entries were acknowledged, and its last windows."""

    id: str
    source: dict[str, Any]
    tools_tokens: int = 0
    acknowledged: int = 0
    last: dict[int | None, bytes] = field(default_factory=dict)


def live(server: Server, reference: Reference, run: Run, lived: Lived) -> Iterator[int]:
    """Create the conversation, append its turns and check windows after each question; yield the length of each turn."""
    source = lived.source
    settings = {name: source[name] for name in ("system", "tools") if source.get(name)}
    assert server.client.post("/conversations", json={"id": lived.id, **settings}).status_code == 201
    lived.tools_tokens = _tools_tokens(server.client, settings)
    for turn in _turns(source["entries"]):
        appended = server.client.post(f"/conversations/{lived.id}/messages", json={"messages": turn})
        if appended.status_code != 201:
            run.wrong.append(f"{lived.id}: an append answered {appended.status_code}: {appended.text[:200]}")
        lived.acknowledged += len(turn)
        if turn[-1]["message"]["role"] == "user":
            for budget in BUDGETS:
                lived.last[budget] = _ask(server.client, lived, budget)
                _check_window(reference, run, lived, budget)
        yield len(turn)


def _turns(entries: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the entries up to and with each user message, in batches of at most 100, as a chat appends them."""
    turn: list[dict[str, Any]] = []
    for entry in entries:
        turn.append(entry)
        if entry["message"]["role"] == "user" or len(turn) == _BATCH:
            yield turn
            turn = []
    if turn:
        yield turn


def _tools_tokens(client: httpx.Client, settings: dict[str, Any]) -> int:
    """Return the tokens that tool definitions add to the server's count of the same messages."""
    if not settings.get("tools"):
        return 0
    body = {"model": MODEL, "messages": [{"role": "system", "content": settings["system"]}]}
    without, with_tools = (
        client.post("/count", json=each).json()["tokens"] for each in (body, {**body, "tools": settings["tools"]})
    )
    return with_tools - without


def _ask(client: httpx.Client, lived: Lived, budget: int | None) -> bytes:
    parameters: dict[str, Any] = {"model": MODEL} | ({"max_tokens": budget} if budget else {})
    response = client.get(f"/conversations/{lived.id}/window", params=parameters)
    return f"{response.status_code} ".encode() + response.content


def _check_window(reference: Reference, run: Run, lived: Lived, budget: int | None) -> None:
    status, _, body = lived.last[budget].partition(b" ")
    figures = run.budgets[budget]
    at = f"{lived.id} after {lived.acknowledged} entries at {budget or 'full'}"
    if status == b"422":
        figures.refused += 1
        run.wrong += [f"{at}: {reason}" for reason in _refusal_faults(reference, lived, json.loads(body))]
        return
    if status != b"200":
        run.wrong.append(f"{at}: {status.decode()} {body[:200].decode()}")
        return
    window = _window.decode(body)
    run.wrong += [f"{at}: {reason}" for reason in _window_faults(reference, lived, window)]
    figures.windows += 1
    figures.tokens += window.tokens["total"]
    figures.filled += window.tokens["total"] / window.budget
    figures.dropped_messages += window.dropped["messages"]
    figures.dropped_tokens += window.dropped["tokens"]
    figures.saved_tokens += window.dropped["grounding_tokens"]


def _refusal_faults(reference: Reference, lived: Lived, problem: dict[str, Any]) -> Iterator[str]:
    """A window is refused only when the system prompt, the definitions and the question are over the budget."""
    question = lived.source["entries"][lived.acknowledged - 1]["message"]
    least = [{"role": "system", "content": lived.source["system"]}, question]
    needed = reference.request([json.dumps(each).encode() for each in least]) + lived.tools_tokens
    if problem.get("type") != "/problems/window-does-not-fit" or needed <= problem["budget"]:
        yield f"refused, though {needed} tokens fit: {problem.get('detail')}"


def _window_faults(reference: Reference, lived: Lived, window: _Window) -> Iterator[str]:
    sent = [bytes(raw) for raw in window.request.messages]
    counted = reference.request(sent) + (lived.tools_tokens if window.request.tools else 0)
    if counted != window.tokens["total"]:
        yield f"says {window.tokens['total']} tokens, an independent count {counted}"
    if counted > window.budget:
        yield f"{counted} tokens are over the budget of {window.budget}"
    messages = [json.loads(raw) for raw in sent]
    history = [entry["message"] for entry in lived.source["entries"][: lived.acknowledged]]
    if messages[0] != {"role": "system", "content": lived.source["system"]}:
        yield "does not begin with the system prompt"
    tail = history[len(history) - (len(messages) - 1) :]
    if [_uncut(*pair) for pair in zip(messages[1:-1], tail[:-1], strict=False)] != tail[:-1]:
        yield "is not the history's tail, in order"
    if not str(messages[-1]["content"]).startswith(tail[-1]["content"]):
        yield "has not the newest question at its end"
    if len(messages) > 1 and messages[1]["role"] == "tool":
        yield "begins with a tool result"
    if any(b["role"] == "tool" and not a.get("tool_calls") for a, b in pairwise(messages)):
        yield "has a tool result without its call"


def _uncut(sent: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """Return ``stored`` if ``sent`` is its tool result cut to the beginning, else ``sent``."""
    beginning, line, _ = str(sent.get("content")).partition("\n[…")
    is_cut = sent["role"] == "tool" and line and str(stored["content"]).startswith(beginning)
    return stored if is_cut else sent


# ---- what a restart must not lose


def verify(server: Server, run: Run, everyone: Sequence[Lived], after: str) -> None:
    """Read back everything that was acknowledged, and request the last windows again."""
    lost = len(run.wrong)
    for lived in everyone:
        stored = list(_stored(server.client, lived.id))
        expected = lived.source["entries"][: lived.acknowledged]
        if [_told(entry) for entry in stored] != [_told(entry) for entry in expected]:
            run.wrong.append(f"{lived.id}: after {after} {len(stored)} entries, not the {len(expected)} acknowledged")
        for budget, before in lived.last.items():
            if _ends_with_question(lived) and _ask(server.client, lived, budget) != before:
                run.wrong.append(f"{lived.id}: after {after} another window at {budget or 'full'}")
    entries = sum(lived.acknowledged for lived in everyone)
    run.checks.append(
        f"{after}: {len(everyone)} conversations, {entries:,} entries read back, {len(run.wrong) - lost} wrong"
    )


def _ends_with_question(lived: Lived) -> bool:
    """Return whether the last windows were requested after the last append."""
    return bool(lived.acknowledged) and lived.source["entries"][lived.acknowledged - 1]["message"]["role"] == "user"


def _stored(client: httpx.Client, identity: str) -> Iterator[dict[str, Any]]:
    cursor: str | None = ""
    while cursor is not None:
        parameters = {"limit": 1000} | ({"cursor": cursor} if cursor else {})
        page = client.get(f"/conversations/{identity}/messages", params=parameters).json()
        yield from page["messages"]
        cursor = page["next_cursor"]


def _told(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry["id"], entry["message"], entry.get("grounding")


# ---- the run


def import_whole(server: Server, folder: Path, sources: Sequence[dict[str, Any]], run: Run) -> None:
    """Run ``sash import`` on everything twice; the second time must store nothing new."""
    file = folder / "import.jsonl"
    file.write_text("".join(json.dumps(source) + "\n" for source in sources))
    sash = str(Path(sys.executable).with_name("sash"))
    command = [sash, "import", str(file), "--url", server.url, "--json"]
    first, second = (json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(2))
    run.imported = first
    if (second["messages"], second["duplicates"]) != (0, first["messages"]):
        run.wrong.append(f"a second import stored {second['messages']} messages again")


def run_all(sources: Sequence[dict[str, Any]], folder: Path, progress: Progress) -> Run:
    """Run everything; ``folder`` is for the server's data."""
    run, server = Run(), Server(folder)
    (folder / "ranks").mkdir()
    reference = Reference(folder / "ranks")
    everyone: list[Lived] = []
    total = sum(len(source["entries"]) for source in sources)
    task = progress.add_task("entries", total=total)
    ends = [(total // 3, signal.SIGKILL), (2 * total // 3, signal.SIGTERM)]
    server.start()
    try:
        import_whole(server, folder, sources, run)
        imported = [Lived(source["id"], source, acknowledged=len(source["entries"])) for source in sources]
        for source in sources:
            everyone.append(Lived(f"live-{source['id']}", source))
            for appended in live(server, reference, run, everyone[-1]):
                run.messages += appended
                progress.advance(task, appended)
                if ends and run.messages >= ends[0][0]:
                    _, how = ends.pop(0)
                    server.restart(how)
                    verify(server, run, [*imported, *everyone], f"{how.name} and a new start")
            run.documents += sum(len(e.get("grounding", {}).get("documents", ())) for e in source["entries"])
            run.conversations += 1
        server.restart(signal.SIGTERM)
        verify(server, run, [*imported, *everyone], "SIGTERM at the end")
    finally:
        server.end(signal.SIGTERM)
        server.client.close()
    return run


def print_run(run: Run, seconds: float, out: Console) -> None:
    summary = Table("conversations", "messages", "documents", "windows", "tokens sent", title="Summary")
    windows = sum(figures.windows for figures in run.budgets.values())
    tokens = sum(figures.tokens for figures in run.budgets.values())
    summary.add_row(*(f"{n:,}" for n in (run.conversations, run.messages, run.documents, windows, tokens)))
    out.print(summary)
    table = Table(title=f"Windows for {MODEL} after every user message, each counted again")
    columns = (
        "budget",
        "windows",
        "refused",
        "tokens",
        "filled",
        "dropped",
        "their tokens",
        "documents saved",
    )
    for column in columns:
        table.add_column(column, justify="right")
    for budget, figures in run.budgets.items():
        filled = f"{figures.filled / figures.windows:.0%}" if figures.windows else "-"
        counts = (figures.dropped_messages, figures.dropped_tokens, figures.saved_tokens)
        figure = (f"{figures.windows:,}", f"{figures.refused:,}", f"{figures.tokens:,}", filled)
        table.add_row(f"{budget:,}" if budget else "full", *figure, *(f"{count:,}" for count in counts))
    out.print(table)
    out.print(
        f"sash import: {run.imported['messages']:,} messages of {run.imported['tokens']:,} tokens; again: none new"
    )
    for check in run.checks:
        out.print(check)
    for wrong in run.wrong[:20]:
        out.print(f"WRONG {wrong}", markup=False)
    out.print(f"{len(run.wrong)} wrong, {seconds:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, metavar="N", help="only the N shortest")
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="conversations, one a line; else the data set"
    )
    options = parser.parse_args()
    sources = load_conversations(options.files)
    if not sources:
        print(NO_DATA)
        return 1
    if options.conversations:
        sources = sorted(sources, key=lambda source: len(source["entries"]))[: options.conversations]
    out, started = Console(), time.monotonic()
    if not out.is_terminal:
        out = Console(width=120)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory(prefix="sash-data-run-") as folder, Progress(*columns, console=out) as progress:
        run = run_all(sources, Path(folder), progress)
    print_run(run, time.monotonic() - started, out)
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

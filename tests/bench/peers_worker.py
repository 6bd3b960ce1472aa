"""Times a library in use today; run by peers.py with the peers' own Python: the store's URL, a job's file, the library.

Every library reads its history from the same store in its own format (LiteLLM and openai-messages-token-helper have no
store: theirs is a list of JSON), counts with tiktoken's o200k_base, and makes a window of the same messages.
"""

import asyncio
import json
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import redis  # noqa: E402
import tiktoken  # noqa: E402

URL, PEER, KEEP_SECONDS = sys.argv[1], sys.argv[3], 2.0
with open(sys.argv[2]) as job_file:
    JOB = json.load(job_file)
ENCODING = tiktoken.get_encoding("o200k_base")
client = redis.Redis.from_url(URL)


def count(text):
    return len(ENCODING.encode(text, disallowed_special=()))


def median_seconds(call):
    """Return the median seconds of the calls that begin within two seconds: at least one, at most 50."""
    taken = []
    end = time.perf_counter() + KEEP_SECONDS
    while not taken or (time.perf_counter() < end and len(taken) < 50):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return sorted(taken)[len(taken) // 2]


def stored(name):
    return [json.loads(line) for line in client.lrange(f"peers:{name}", 0, -1)]


def token_helper(name, messages):
    from openai_messages_token_helper import build_messages

    client.rpush(f"peers:{name}:oth", *[json.dumps(m) for m in messages])

    def call(budget):
        history = [json.loads(line) for line in client.lrange(f"peers:{name}:oth", 0, -1)]
        build_messages(
            "gpt-4o",
            "You are helpful.",
            past_messages=history[:-1],
            new_user_content=history[-1]["content"],
            max_tokens=budget,
        )

    return call


def langchain(name, messages):
    from langchain_community.chat_message_histories import RedisChatMessageHistory
    from langchain_core.messages import AIMessage, HumanMessage, trim_messages

    history = RedisChatMessageHistory(session_id=name, url=URL)
    for m in messages:
        history.add_message((HumanMessage if m["role"] == "user" else AIMessage)(m["content"]))

    def counter(batch):
        return 3 + sum(4 + count(m.content) for m in batch)

    def call(budget):
        trim_messages(history.messages, max_tokens=budget, strategy="last", token_counter=counter)

    return call


def litellm(name, messages):
    from litellm.utils import trim_messages

    client.rpush(f"peers:{name}", *[json.dumps(m) for m in messages])

    def call(budget):
        trim_messages(stored(name), model="gpt-4o", max_tokens=budget)

    return call


def llamaindex(name, messages):
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import ChatMemoryBuffer
    from llama_index.storage.chat_store.redis import RedisChatStore

    store = RedisChatStore(redis_url=URL)
    for m in messages:
        store.add_message(name, ChatMessage(role=m["role"], content=m["content"]))

    def call(budget):
        memory = ChatMemoryBuffer.from_defaults(
            chat_store=store,
            chat_store_key=name,
            token_limit=budget,
            tokenizer_fn=lambda text: ENCODING.encode(text, disallowed_special=()),
        )
        memory.get()

    return call


def agents(name, messages):
    from agents.extensions.memory.redis_session import RedisSession

    loop = asyncio.new_event_loop()
    session = loop.run_until_complete(_session(RedisSession, name))
    for first in range(0, len(messages), 500):
        loop.run_until_complete(session.add_items(messages[first : first + 500]))
    mean = sum(4 + count(m["content"]) for m in messages[:100]) / len(messages[:100])

    def call(budget):
        loop.run_until_complete(session.get_items(limit=max(1, int(budget / mean))))

    return call


async def _session(kind, name):
    return kind.from_url(name, url=URL)


PEERS = {
    "openai-messages-token-helper": token_helper,
    "LangChain trim_messages": langchain,
    "LiteLLM trim_messages": litellm,
    "LlamaIndex ChatMemoryBuffer": llamaindex,
    "OpenAI Agents RedisSession (no counts)": agents,
}


def main():
    """Print the seconds of one call, or null for a peer that does not run."""
    messages = JOB["messages"]
    try:
        call = PEERS[PEER](PEER.split()[0].lower(), messages)
        print(json.dumps(median_seconds(lambda: call(JOB["budget"]))))
    except Exception as error:  # noqa: BLE001 - a peer that cannot run is a row that says so
        print(repr(error)[:200], file=sys.stderr)
        print("null")


main()

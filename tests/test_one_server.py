"""The shortest whole way through a real server, which the quick check takes."""

import httpx
from conftest import Served


def test_a_conversation_from_its_first_message_to_its_erasure(served: Served) -> None:
    """``sash serve`` takes messages, answers with their window, and forgets them when they are erased."""
    said = [{"role": "user", "content": "is there a talk?"}, {"role": "assistant", "content": "at nine"}]
    with httpx.Client(base_url=served.url) as client:
        appended = client.post("/conversations/one-server/messages", json={"messages": said})
        assert appended.status_code == 201
        window = client.get("/conversations/one-server/window", params={"model": "gpt-4o-mini"})
        assert window.json()["request"] == {"messages": said}
        assert client.delete("/conversations/one-server").status_code == 204
        assert client.get("/conversations/one-server").status_code == 404

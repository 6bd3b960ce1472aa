"""A frontend that stores a reply part by part, in a process of its own that can be killed in the middle.

It prints a line before it sends a part, and one when the part is acknowledged: ``try 3 5`` and ``done 3 5`` for part 5 of
reply 3.
"""

import http.client
import json
import sys

PARTS = 12


def text_of(conversation: str, number: int, part: int) -> str:
    """Return the text of a reply up to ``part``."""
    return f"{conversation} {number} " + "word " * part


def main(port: int, conversation: str, number: int) -> None:
    """Store questions and replies, numbered from ``number`` on, until killed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def say(*entries: object) -> None:
        body = json.dumps({"messages": entries})
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"/conversations/{conversation}/messages", body, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status in (200, 201), answer.status

    while True:
        say({"id": f"u-{number}", "message": {"role": "user", "content": f"{conversation} {number}"}})
        for part in range(1, PARTS + 1):
            sys.stdout.write(f"try {number} {part}\n")
            sys.stdout.flush()
            message = {"role": "assistant", "content": text_of(conversation, number, part)}
            status = "in_progress" if part < PARTS else "completed"
            say({"id": f"r-{number}", "message": message, "status": status})
            sys.stdout.write(f"done {number} {part}\n")
            sys.stdout.flush()
        number += 1


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))

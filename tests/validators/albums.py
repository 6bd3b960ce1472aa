"""Chats in each provider's form with pictures, files and sounds wherever the form has a place for one."""

import base64
from collections.abc import Sequence
from random import Random

from validators import media
from validators.logs import Object

WORDS = ("word ", "slovo část ", "日本語 ", "x = 1;\n", "12345 ")
_SIDES = ((10, 10), (600, 400), (1200, 900), (3500, 10), (0, 0))
_LINK = "https://images.example/a.png"
_FILE = "https://files.example/a.pdf"
_KEPT = "https://generativelanguage.googleapis.com/v1beta/files/abc"
_KINDS = ("image", "image", "image", "link", "kept", "pdf", "text", "file", "other")


def album(random: Random, form: str, *, thinks_in_pictures: bool) -> list[Object]:
    """Return a chat's messages, in the form that the provider gives and takes; the last turns may be unfinished."""
    drawn = Album(random, form, thinks_in_pictures=thinks_in_pictures)
    messages = [message for number in range(random.randrange(1, 5)) for message in drawn.turn(number)]
    return messages[: random.randrange(max(1, len(messages) // 2), len(messages) + 1)]


class Album:
    """Draws turns of one chat. ``thinks_in_pictures``: Gemini's thoughts may have pictures and files."""

    def __init__(self, random: Random, form: str, *, thinks_in_pictures: bool) -> None:
        self.random, self.form, self.thinks_in_pictures = random, form, thinks_in_pictures

    def turn(self, number: int) -> list[Object]:
        """Return a question, up to two rounds of calls with their results, and mostly an answer."""
        told: list[Object] = [self._question()]
        for step in range(self.random.choice((0, 1, 1, 2))):
            told += self._calls([f"call_{number}_{step}_{index}" for index in range(self.random.choice((1, 1, 2, 3)))])
        return [*told, *(self._answer(f"x_{number}") if self.random.random() < 0.8 else ())]

    # ---- texts and media

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _text(self, most: int = 60) -> str:
        return self.random.choice(WORDS) * self.random.randrange(1, most)

    def _long(self) -> str:
        return self._text(self.random.choice((20, 400, 1500)))

    def _base64(self, size: int) -> str:
        return base64.b64encode(self.random.randbytes(size)).decode()

    def _words(self, text: str, role: str = "user") -> Object:
        if self.form == "gemini":
            return {"text": text}
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": kind if self.form == "responses" else "text", "text": text}

    def medium(self) -> Object:
        """Return a picture, a file or a sound as a part: in it, at an address, or kept by the provider."""
        kind = self.random.choice(_KINDS)
        picture = media.png(*self.random.choice(_SIDES), self.random.choice((0, 0, 300, 9000, 25000)))
        pages = media.pdf(self.random.randrange(1, 4))
        text = base64.b64encode(self._text(self.random.choice((60, 600))).encode()).decode()
        other = self._base64(self.random.choice((30, 900, 9000)))
        made = {"openai": self._chat, "responses": self._item, "anthropic": self._block, "gemini": self._part}
        return made[self.form](kind, picture, pages, text, other)

    def _chat(self, kind: str, picture: str, pages: str, text: str, other: str) -> Object:
        found: dict[str, Object] = {
            "image": _image_url(f"data:image/png;base64,{picture}", detail=self.random.choice(("low", "high", "auto"))),
            "link": _image_url(_LINK),
            "kept": {"type": "file", "file": {"file_id": "file-abc"}},
            "pdf": _file("a.pdf", "application/pdf", pages),
            "text": _file("a.txt", "text/plain", text),
            "file": _file("a.bin", "application/octet-stream", other),
            "other": {"type": "input_audio", "input_audio": {"data": other, "format": "wav"}},
        }
        return found[kind]

    def _item(self, kind: str, picture: str, pages: str, text: str, other: str) -> Object:
        detail = self.random.choice(("low", "high", "auto"))
        held = {"pdf": ("application/pdf", pages), "text": ("text/plain", text), "file": ("application/zip", other)}
        if kind in held:
            media_type, data = held[kind]
            return {"type": "input_file", "filename": "a", "file_data": f"data:{media_type};base64,{data}"}
        found: dict[str, Object] = {
            "image": {"type": "input_image", "image_url": f"data:image/png;base64,{picture}", "detail": detail},
            "link": {"type": "input_image", "image_url": _LINK, "detail": "auto"},
            "kept": {"type": self.random.choice(("input_file", "input_image")), "file_id": "file-abc"},
            "other": {"type": "input_file", "file_url": _FILE},
        }
        return found[kind]

    def _block(self, kind: str, picture: str, pages: str, text: str, other: str) -> Object:
        del other
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture}}
        words = base64.b64decode(text).decode()
        held: Object = {"type": "content", "content": [{"type": "text", "text": words}, image]}
        cites = {"citations": {"enabled": True}} if self._chance(0.3) else {}
        found: dict[str, Object] = {
            "image": image,
            "link": {"type": "image", "source": {"type": "url", "url": _LINK}},
            "kept": {"type": self.random.choice(("image", "document")), "source": {"type": "file", "file_id": "file"}},
            "pdf": {
                "type": "document",
                "title": "a title",
                **cites,
                "source": {"type": "base64", "media_type": "application/pdf", "data": pages},
            },
            "text": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": words}},
            "file": {"type": "document", "source": {"type": "url", "url": _FILE}},
            "other": {"type": "document", "source": held},
        }
        return found[kind]

    def _part(self, kind: str, picture: str, pages: str, text: str, other: str) -> Object:
        snake = self._chance(0.15)
        inline, file = ("inline_data", "file_data") if snake else ("inlineData", "fileData")
        typed, uri = ("mime_type", "file_uri") if snake else ("mimeType", "fileUri")
        found: dict[str, Object] = {
            "image": {inline: {typed: "image/png", "data": picture}},
            "link": {file: {typed: "image/png", uri: _KEPT}},
            "kept": {file: {typed: "application/pdf", uri: "gs://bucket/a.pdf"}},
            "pdf": {inline: {typed: "application/pdf", "data": pages}},
            "text": {inline: {typed: "text/plain", "data": text}},
            "file": {inline: {typed: "application/octet-stream", "data": other}},
            "other": {inline: {typed: "audio/wav", "data": other}},
        }
        return found[kind]

    # ---- messages

    def _question(self) -> Object:
        parts = [self._words(self._text()), *(self.medium() for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))))]
        if self._chance(0.2):
            parts.append(self._words(self._text()))
        self.random.shuffle(parts)
        return {"role": "user", "parts" if self.form == "gemini" else "content": parts}

    def _calls(self, ids: Sequence[str]) -> list[Object]:
        results = [
            (each, self._long(), [self.medium() for _ in range(self.random.choice((0, 0, 1, 1, 2)))]) for each in ids
        ]
        said = self._text() if self._chance(0.4) else ""
        match self.form:
            case "openai":
                function = {"name": "look", "arguments": '{"at":1}'}
                calls = [{"id": each, "type": "function", "function": function} for each in ids]
                made: Object = {"role": "assistant", "content": said or None, "tool_calls": calls}
                answers = [
                    {"role": "tool", "tool_call_id": each, "content": [self._words(text), *shown] if shown else text}
                    for each, text, shown in results
                ]
                return [made, *answers]
            case "responses":
                calls = [{"type": "function_call", "call_id": each, "name": "look", "arguments": "{}"} for each in ids]
                outputs = [
                    {
                        "type": "function_call_output",
                        "call_id": each,
                        "output": [self._words(text), *shown] if shown else text,
                    }
                    for each, text, shown in results
                ]
                return [*self._reasoning(ids[0]), *([self._item_of(said)] if said else ()), *calls, *outputs]
            case "anthropic":
                uses = [{"type": "tool_use", "id": each, "name": "look", "input": {"at": 1}} for each in ids]
                blocks = [*self._reasoning(ids[0]), *([self._words(said)] if said else ()), *uses]
                given = []
                for each, text, shown in results:
                    content = [self._words(text), *shown]
                    self.random.shuffle(content)
                    given.append({"type": "tool_result", "tool_use_id": each, "content": content})
                return [{"role": "assistant", "content": blocks}, {"role": "user", "content": given}]
        asked = [{"functionCall": {"id": each, "name": "look", "args": {"at": 1}}, **self._seal()} for each in ids]
        parts = [*self._reasoning(ids[0]), *([self._words(said)] if said else ())]
        parts += [self.medium()] if self._chance(0.2) else []
        replies = [
            {"id": each, "name": "look", "response": self.random.choice(({"output": text}, {"rows": [text, text]}))}
            | ({"parts": shown} if shown else {})
            for each, text, shown in results
        ]
        return [
            {"role": "model", "parts": [*parts, *asked]},
            {"role": "user", "parts": [{"functionResponse": each} for each in replies]},
        ]

    def _answer(self, name: str) -> list[Object]:
        text = self._text()
        match self.form:
            case "openai":
                return [{"role": "assistant", "content": text}]
            case "responses":
                return [*self._reasoning(name), self._item_of(text)]
            case "anthropic":
                return [{"role": "assistant", "content": [*self._reasoning(name), self._words(text)]}]
        made = [self.medium()] if self._chance(0.2) else []
        return [{"role": "model", "parts": [*self._reasoning(name), self._words(text), *made]}]

    def _item_of(self, text: str) -> Object:
        part = {**self._words(text, "assistant"), "annotations": []}
        return {"type": "message", "role": "assistant", "content": [part]}

    def _seal(self) -> Object:
        """Mostly a signature, which begins as the Gemini API's do: Vertex's tell /count that a request is cheaper."""
        return {"thoughtSignature": "E" + self._base64(300)[1:]} if self._chance(0.5) else {}

    def _reasoning(self, name: str) -> list[Object]:
        """Thoughts, and with Responses a picture that the model made."""
        found: list[Object] = []
        thinks = self._chance(0.4)
        match self.form:
            case "responses":
                if thinks:
                    summary = [{"type": "summary_text", "text": self._text()}]
                    sealed = self._base64(self.random.choice((30, 2000)))
                    found.append(
                        {"type": "reasoning", "id": f"rs_{name}", "summary": summary, "encrypted_content": sealed}
                    )
                if self._chance(0.2):
                    picture = media.png(*self.random.choice(_SIDES), self.random.choice((0, 9000)))
                    made = {"type": "image_generation_call", "id": f"ig_{name}", "status": "completed"}
                    found.append({**made, "result": picture})
            case "anthropic" if thinks:
                found.append({"type": "thinking", "thinking": self._text(), "signature": self._base64(200)})
            case "gemini":
                found += [{"text": self._text(), "thought": True}] if thinks else []
                if self.thinks_in_pictures and self._chance(0.25):
                    found.append({**self.medium(), "thought": True})
        return found


def _image_url(url: str, **more: str) -> Object:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def _file(name: str, media_type: str, data: str) -> Object:
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{media_type};base64,{data}"}}

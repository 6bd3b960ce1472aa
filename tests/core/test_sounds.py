"""The length of sounds and the pages of PDFs, out of the files' own headers."""

import base64
import io
import time
import wave
import zlib
from typing import Any

import pytest

from sash.core.counts.costs.counting import count_request
from sash.core.counts.measures.attachments import pages_in
from sash.core.counts.measures.sounds import HEARD_A_SECOND, sound_length
from sash.core.counts.models.models import find_model

_FRAME = b"\xff\xfb\x90\x00" + b"\0" * 413
"""A frame of MPEG 1, layer III, with 128 kbit/s and 44,100 samples a second: 26 milliseconds."""


def _mp3(frames: int) -> bytes:
    return _FRAME * frames


def _flac(seconds: int) -> bytes:
    rate, samples = 16_000, 16_000 * seconds
    about = (rate << 44 | 0 << 41 | 15 << 36 | samples).to_bytes(8, "big")
    return b"fLaC\x80\0\0\x22" + b"\x10\0\x10\0" + b"\0" * 6 + about + b"\0" * 16


def _wav(seconds: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(8_000)
        written.writeframes(b"\0\0" * 8_000 * seconds)
    return file.getvalue()


def _m4a(seconds: int) -> bytes:
    header = b"\0" * 12 + (1_000).to_bytes(4, "big") + (seconds * 1_000).to_bytes(4, "big") + b"\0" * 80
    movie = (len(header) + 8).to_bytes(4, "big") + b"mvhd" + header
    return b"\0\0\0\x18ftypM4A \0\0\0\0M4A mp42" + (len(movie) + 8).to_bytes(4, "big") + b"moov" + movie


def part(content: bytes, form: str) -> dict[str, Any]:
    data = base64.b64encode(content).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": form}}


@pytest.mark.parametrize(
    ("content", "form", "seconds"),
    [(_wav(3), "wav", 3), (_mp3(383), "mp3", 10), (_flac(7), "flac", 7), (_m4a(42), "m4a", 42)],
    ids=["wav", "mp3", "flac", "m4a"],
)
def test_the_header_states_the_seconds(content: bytes, form: str, seconds: int) -> None:
    """The seconds of a sound are those of its header, in each format that providers take; half a second more if not WAV."""
    spare = 0 if form == "wav" else 0.5
    assert sound_length(part(content, form)) / HEARD_A_SECOND == pytest.approx(seconds + spare, abs=0.01)


@pytest.mark.parametrize(("model", "tokens"), [("gpt-4o-audio-preview", 105), ("gemini-2.5-flash", 337)])
def test_a_sound_costs_its_seconds(model: str, tokens: int) -> None:
    """OpenAI bills ten tokens a second, and Gemini 32, also a begun one; the text beside is counted as without the sound."""
    said: list[dict[str, Any]] = [{"type": "text", "text": "What is said?"}]
    told, alone = (
        count_request(find_model(model), messages=[{"role": "user", "content": said + sounds}]).tokens
        for sounds in ([part(_mp3(383), "mp3")], [])
    )
    assert told - alone == tokens
    assert isinstance(told, int)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfb" * 5_000_000,
        b"ID3\x04\0\0\0\0\0\0" + b"\xff" * 10_000_000,
        b"\0\0\0\x18ftypM4A \0\0\0\0mp42isom" + b"\0\0\0\x08free" * 1_200_000,
        b"OggS\0\2" + b"\0" * 20 + b"\1\0" * 5_000_000,
        b"fLaC" + b"\x04\0\0\0" * 2_500_000,
        b"",
        b"no sound",
    ],
    ids=["mp3", "id3", "m4a", "ogg", "flac", "empty", "text"],
)
def test_a_hostile_sound_takes_no_time(content: bytes) -> None:
    """Ten megabytes that make a reader search for a header end within a second; then the sound is estimated by its size."""
    began = time.process_time()
    sound_length(part(content, "mp3"))
    assert time.process_time() - began < 1


def _pdf(pages: int) -> str:
    objects = b"".join(b"<< /Type /Page /Parent 1 0 R >> " for _ in range(pages)) + b"<< /Type /Pages >>"
    packed = zlib.compress(objects)
    head = b"4 0 obj << /Type /ObjStm /N 9 /First 20 /Filter /FlateDecode /Length %d >>\nstream\r\n" % len(packed)
    return "data:application/pdf;base64," + base64.b64encode(b"%PDF-1.5\n" + head + packed + b"\nendstream").decode()


@pytest.mark.parametrize("pages", [1, 2, 300])
def test_pages_in_compressed_objects_count(pages: int) -> None:
    """From PDF 1.5 on pages may be in compressed streams of objects; the node that lists the pages is none."""
    assert pages_in(_pdf(pages)) == pages


def test_a_hostile_pdf_takes_no_memory() -> None:
    """Of streams that unpack to gigabytes so much is unpacked at most."""
    bomb = zlib.compress(b" " * 30_000_000)
    stream = b"4 0 obj << /Type /ObjStm >>\nstream\n" + bomb + b"\nendstream\n"
    data = b"%PDF-1.5\n" + stream * 100
    began = time.process_time()
    assert pages_in("data:application/pdf;base64," + base64.b64encode(data).decode()) == 0
    assert time.process_time() - began < 1

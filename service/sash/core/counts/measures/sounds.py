"""The length of a sound, as its file's header states it. Providers bill sounds by the second."""

import base64
import wave
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

HEARD_A_SECOND: Final = 10_000
"""Units of a sound's length: a tenth of a millisecond."""
_LONGEST_SOUND: Final = 100_000 * HEARD_A_SECOND
_WAV: Final = "UklGR"
"""How a RIFF file begins in base64."""
_SPARE: Final = HEARD_A_SECOND // 2
"""Added to a sound that is not WAV: one bill of an MP3 was 0.4 seconds above its frames, and another equal to them."""
_MOST_READS: Final = 10_000
_MOST_BYTES: Final = 2_000_000


class _Bounded(BytesIO):
    """A file of which a reader gets so much at most. Headers are short; a hostile file of 20 MB takes a reader 80 s whole,
    and 0.05 s so."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._reads, self._bytes = _MOST_READS, _MOST_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self._reads, self._bytes = self._reads - 1, self._bytes - len(found)
        if self._reads < 0 or self._bytes < 0:
            raise OSError("the header of this file is too long")
        return found

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._reads -= 1
        return super().seek(offset, whence)


def sound_length(part: Mapping[str, Any]) -> int:
    """Return the length of a sound in ``HEARD_A_SECOND``, as the header of its file states it; 0 if none does.

    Read are WAV, and MP3, FLAC, OGG and M4A.
    """
    sound = part.get("input_audio")
    data = sound.get("data") if isinstance(sound, Mapping) else None
    if not isinstance(data, str) or not data:
        return 0
    try:
        content = base64.b64decode(data)
        found = _wave_length(content) if data.startswith(_WAV) else _tagged_length(content)
    except Exception:  # noqa: BLE001 - bad base64, or a broken header, which may raise any exception
        return 0
    return max(0, min(_LONGEST_SOUND, found))


def _wave_length(content: bytes) -> int:
    with wave.open(BytesIO(content)) as file:
        return int(file.getnframes() * HEARD_A_SECOND // file.getframerate())


def _tagged_length(content: bytes) -> int:
    from tinytag import TinyTag  # noqa: PLC0415 - few messages have a sound

    seconds = TinyTag.get(file_obj=_Bounded(content), tags=False).duration
    return int(seconds * HEARD_A_SECOND) + _SPARE if seconds else 0

"""Image sizes, read from headers, and image tokens, by tiles and patches."""

import base64
import struct
import zlib
from io import BytesIO

import pytest
from PIL import Image as Pillow

from sash.core.counts.measures.attachments import AUTO, LOW, ORIGINAL, image_size, image_tokens, is_guess
from sash.core.counts.models.families import FAMILIES, PatchRules, TileRules

TILES = TileRules(base=85, tile=170)
PATCHES = PatchRules(factor=1.0)


def data_url(data: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def picture(kind: str, width: int, height: int, **options: object) -> str:
    buffer = BytesIO()
    Pillow.new("RGB", (width, height)).save(buffer, kind, **options)
    return data_url(buffer.getvalue(), kind.lower())


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("JPEG", {}),
        ("GIF", {}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0"}),
    ],
)
def test_reads_the_size_from_the_header(kind: str, options: dict[str, object]) -> None:
    """Width and height come from the header of each format that providers take."""
    assert image_size(picture(kind, 301, 47, **options)) == (301, 47)


def test_a_huge_size_is_only_read() -> None:
    """The size of an image of 3.6 gigapixels is read from its header alone."""
    size = struct.pack(">4sIIBBBBB", b"IHDR", 60_000, 60_000, 8, 2, 0, 0, 0)
    header = b"\x89PNG\r\n\x1a\n\0\0\0\x0d" + size + struct.pack(">I", zlib.crc32(size)) + b"\0\0\0\1IDAT"
    assert image_size(data_url(header)) == (60_000, 60_000)


def jpeg(*segments: tuple[int, bytes]) -> bytes:
    """The beginning of a JPEG: segments, each of a marker and its bytes."""
    return b"\xff\xd8" + b"".join(struct.pack(">BBH", 0xFF, marker, 2 + len(said)) + said for marker, said in segments)


FRAME = (0xC2, struct.pack(">BHHB", 8, 47, 301, 3))


@pytest.mark.parametrize(
    "header",
    [
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBBI", 13, b"IHDR", 301, 47, 8, 2, 0, 0, 0, 0),
        b"GIF87a" + struct.pack("<HHBBB", 301, 47, 0, 0, 0),
        jpeg((0xE0, b"JFIF\0"), (0xC4, bytes(20)), FRAME),
        jpeg((0xE1, bytes(9))) + b"\xff\xff" + jpeg(FRAME)[2:],
    ],
)
def test_a_header_without_its_picture(header: bytes) -> None:
    """The header is enough: the picture and checksums behind it are not looked at."""
    assert image_size(data_url(header)) == (301, 47)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/cat.png",
        "data:image/png,plain",
        "data:image/png;base64,@@@",
        data_url(b""),
        data_url(b"\x89PNG"),
        data_url(b"\xff\xd8\xff\xe0"),
        data_url(b"\xff\xd8\xff\xda\0\x02" + bytes(9)),
        data_url(jpeg((0xE0, b"JFIF\0"))),
        data_url(jpeg((0xC0, bytes(6)))),
        data_url(b"GIF89a"),
        data_url(b"RIFF\0\0\0\0WEBPVP8X"),
        data_url(b"RIFF\0\0\0\0WEBPwhat" + bytes(20)),
        data_url(b"BM nothing we know"),
    ],
)
def test_what_has_no_readable_header_has_no_size(url: str) -> None:
    """A link, a broken header and an unknown format have no size, and raise nothing."""
    assert image_size(url) is None


@pytest.mark.parametrize(
    ("width", "height", "tiles"),
    [
        (1, 1, 1),
        (512, 512, 1),
        (513, 512, 2),
        (768, 768, 4),
        (1024, 1024, 4),
        (2048, 4096, 6),
        (2049, 513, 8),
        (2050, 513, 4),
    ],
)
def test_tiles_after_fitting(width: int, height: int, tiles: int) -> None:
    """An image is scaled down to 2048 by 2048 and a short side of 768, in whole pixels, and cut into tiles of 512."""
    assert image_tokens((width, height, AUTO), TILES) == 85 + 170 * tiles


def test_low_detail_is_the_base_alone() -> None:
    """Low detail costs the base, whatever the size, known or not."""
    assert image_tokens((4000, 4000, LOW), TILES) == image_tokens((0, 0, LOW), TILES) == 85


@pytest.mark.parametrize(
    ("width", "height", "patches"),
    [(1, 1, 1), (32, 32, 1), (33, 32, 2), (1024, 1024, 1024), (1800, 2400, 1452), (4096, 4096, 1521)],
)
def test_patches_are_shrunk_to_the_budget(width: int, height: int, patches: int) -> None:
    """An image costs one token and one for each patch of 32 pixels, scaled down to at most 1536 patches."""
    assert image_tokens((width, height, AUTO), PATCHES) == 1 + patches


def test_patches_cost_a_factor() -> None:
    """An image's patches are multiplied by the family's factor, and rounded up."""
    rules = FAMILIES["gpt-4.1-mini"].images
    assert image_tokens((1024, 1024, AUTO), rules) == 1 + 1659


def test_original_detail_has_a_budget_of_its_own() -> None:
    """With the detail ``original``, GPT-5.4 has a larger budget of patches."""
    rules = FAMILIES["gpt-5.4"].images
    assert image_tokens((2048, 2048, AUTO), rules) < image_tokens((2048, 2048, ORIGINAL), rules) == 1 + 4916


@pytest.mark.parametrize("family", FAMILIES)
def test_an_unknown_size_costs_the_most_and_is_a_guess(family: str) -> None:
    """An image of unknown size is an estimate, and costs at least as much as an image of any known size."""
    rules = FAMILIES[family].images
    sizes = [(w, h) for w in (1, 512, 768, 1023, 2048, 9000) for h in (1, 513, 769, 2047, 9000)]
    assert is_guess((0, 0, AUTO), rules)
    assert image_tokens((0, 0, AUTO), rules) >= max(image_tokens((w, h, AUTO), rules) for w, h in sizes)
    assert not is_guess((10, 10, AUTO), rules)

"""Tokens of images: sizes from file headers, and the providers' three ways of billing pixels."""

import base64
import math
import re
from io import BytesIO

import imagesize  # type: ignore[import-untyped]

from service.core.families import CropRules, ImageRules, PatchRules, TileRules

AUTO, LOW, ORIGINAL = 0, 1, 2
DETAILS = {"auto": AUTO, "high": AUTO, "low": LOW, "original": ORIGINAL}
Image = tuple[int, int, int]  # width and height in pixels (0, 0: unknown), and detail
_TAKEN = re.compile(rb"\x89PNG\r\n|\xff\xd8\xff|GIF8|RIFF....WEBP", re.DOTALL)
"""The beginning of an image in a format that providers take."""
_LONG_SIDE, _SHORT_SIDE, _TILE = 2048, 768, 512


def image_size(url: str) -> tuple[int, int] | None:
    """Return the width and height, in pixels, that the header of a data URL states; None for anything else."""
    head, _, payload = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        return None
    try:
        data = base64.b64decode(payload)
        width, height = imagesize.get(BytesIO(data), exif_rotation=False) if _TAKEN.match(data) else (0, 0)
    except Exception:  # noqa: BLE001 - bad base64, or a broken header, which may raise any exception
        return None
    return (width, height) if width > 0 and height > 0 else None


def is_guess(image: Image, rules: ImageRules) -> bool:
    """Return whether an image's cost is estimated: its size is unknown, and the family's price depends on the size."""
    width, _, detail = image
    return not width and not (detail == LOW and isinstance(rules, TileRules))


def image_tokens(image: Image, rules: ImageRules) -> int:
    """Return one image's tokens. An image of unknown size has the highest cost of any size, or that of ``unknown`` crops."""
    width, height, detail = image
    match rules:
        case TileRules():
            if detail == LOW:
                return rules.base
            return rules.base + rules.tile * (_tiles(width, height) if width else _MOST_TILES)
        case PatchRules():
            budget = rules.original_budget if detail == ORIGINAL else rules.budget
            patches = _patches(width, height, budget, rules) if width else budget
            return math.ceil(patches * rules.factor) + rules.each
        case CropRules():
            return rules.each * (_crops(width, height, rules) if width else rules.unknown)


def _crops(width: int, height: int, rules: CropRules) -> int:
    """Count the crops and the whole image. 8 of 8 recorded images of Gemini agree."""
    if max(width, height) <= rules.small:
        return 1
    side = min(max(math.floor(min(width, height) / 1.5), rules.least), rules.most)
    return math.ceil(width / side) * math.ceil(height / side) + 1


_MOST_TILES = 8  # 768 by 2048


def _tiles(width: int, height: int) -> int:
    """Count 512-pixel tiles, after shrinking to 2048 by 2048 and then to a short side of 768, each rounded to a pixel."""
    width, height = _fit(width, height, _LONG_SIDE / max(width, height))
    width, height = _fit(width, height, _SHORT_SIDE / min(width, height))
    return math.ceil(width / _TILE) * math.ceil(height / _TILE)


def _fit(width: int, height: int, scale: float) -> tuple[int, int]:
    if scale >= 1:
        return width, height
    return max(1, math.floor(width * scale + 0.5)), max(1, math.floor(height * scale + 0.5))


def _patches(width: int, height: int, budget: int, rules: PatchRules) -> int:
    """Count patches, after shrinking the image to the longest side and then to the budget of patches."""
    width, height = _fit(width, height, rules.longest / max(width, height))
    side = rules.patch
    patches = math.ceil(width / side) * math.ceil(height / side)
    if patches <= budget:
        return patches
    scale = math.sqrt(budget * side**2 / (width * height))
    across, down = width * scale / side, height * scale / side
    # shrink a little more, so that one side is a whole number of patches
    scale *= min(max(1, math.floor(across)) / across, max(1, math.floor(down)) / down)
    return min(budget, _whole(width * scale / side) * _whole(height * scale / side))


def _whole(patches: float) -> int:
    """Round up, ignoring floating-point errors."""
    return math.ceil(round(patches, 6))

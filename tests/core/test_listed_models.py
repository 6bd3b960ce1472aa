"""The file of listed models says what genai-prices says."""

from importlib.metadata import version

import pytest
from genai_prices.data_snapshot import get_snapshot
from listed_models import FILE, listed

from sash.core.counts.models import listings

NAMES = sorted({model.id.lower() for provider in get_snapshot().providers for model in provider.models})


def test_the_file_is_made_from_the_installed_version() -> None:
    """``python -m tests.listed_models`` would write the same file, and its version is the one that is told."""
    assert FILE.read_bytes() == listed()
    assert listings.LISTED[0] == version("genai-prices")


@pytest.mark.slow
@pytest.mark.parametrize("seller", ["openai", "anthropic", "aws", "azure", "google"])
def test_a_name_finds_what_it_finds_there(seller: str) -> None:
    """Each listed name, plain and with a date, finds the model that genai-prices finds for this seller."""
    theirs = next(provider for provider in get_snapshot().providers if provider.id == seller)
    for name in [*NAMES, *(f"{name}-20251211" for name in NAMES)]:
        found, expected = listings._matches([seller], name), theirs.find_model(name)
        assert [each.id for each in found] == ([] if expected is None else [expected.id]), name

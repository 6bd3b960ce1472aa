"""Bounds that requests, settings and commands check alike."""

import re
from typing import Final

LONGEST_ID: Final = 128
"""Characters of the longest id."""
IDS: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_ID - 1}}}")
"""Ids of tenants, owners, conversations and messages, and names of requests."""
WHAT_IDS_ARE: Final = f"1 to {LONGEST_ID} letters, digits, '.', '_' and '-', beginning with a letter or digit"
TEN_YEARS_SECONDS: Final = 10 * 365 * 24 * 3600
"""The longest time that a conversation is kept after its last change."""

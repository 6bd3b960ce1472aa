"""Bounds that requests, settings and commands check alike."""

import re
from typing import Final

LONGEST_ID: Final = 128
"""Characters of the longest id."""
IDS: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_ID - 1}}}")
"""Ids of tenants, conversations and messages, and names of requests."""
WHAT_IDS_ARE: Final = f"1 to {LONGEST_ID} letters, digits, '.', '_' and '-', beginning with a letter or digit"
OWNERS: Final = re.compile(r"(?!\.{1,2}\Z)[^\x00-\x1f\x7f-\x9f]{1,256}")
"""Ids of owners, which other systems give: addresses, subjects of OpenID. Paths of ``.`` and ``..`` would lead elsewhere."""
WHAT_OWNERS_ARE: Final = "1 to 256 characters of any text without control characters, and not '.' or '..' alone"
LONGEST_AGENT: Final = 64
"""Characters of the longest name of an agent."""
MOST_AGENTS: Final = 16
"""Names in the longest audience."""
AGENTS: Final = re.compile(rf"[^\x00-\x1f\x7f-\x9f]{{1,{LONGEST_AGENT}}}")
"""Names of agents, as frameworks give them: ``billing``, ``Billing Agent``."""
RECEIPTS: Final = re.compile(r"w1\.[A-Za-z0-9_-]{36,157}")
"""Receipts of windows."""
WHAT_AGENTS_ARE: Final = f"1 to {LONGEST_AGENT} characters of any text without control characters"
TEN_YEARS_SECONDS: Final = 10 * 365 * 24 * 3600
"""The longest time that a conversation is kept after its last change."""

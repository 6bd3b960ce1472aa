"""Each adapter, and each thing that people press in a chat, with the framework's own package.

``python -m pytest -m clients tests/clients/test_buttons.py``
"""

from pathlib import Path

import pytest
from clients.buttons_page import NAMES, PAGE, pressed, row
from conftest import Served

_PROGRAMS = [pytest.param(name, marks=[pytest.mark.clients] if needs else []) for name, (_, needs) in NAMES.items()]
"""CI presses the buttons that need no other package."""


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the frameworks' environments."""
    return tmp_path_factory.mktemp("environments")


@pytest.mark.parametrize("program", _PROGRAMS)
def test_each_button_does_what_the_page_says(program: str, served: Served, environments: Path) -> None:
    """After each button the log is the screen's chat, the model was sent just that, and the page's table says so."""
    found = pressed(program, environments, served.url)
    assert row(program, found) in PAGE.read_text("utf-8"), "run: python -m tests.clients.buttons_page"

"""What ``sash serve`` and its worker import and load, for the process from which tests' servers are forked."""

import sash.cli
import sash.serve
from sash.app import create_app
from sash.settings import Settings

create_app(Settings(redis_url="redis://127.0.0.1"))  # litestar imports a hundred modules for its first application
sash.serve._load()

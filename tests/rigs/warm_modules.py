"""What ``sash serve`` imports and loads before it forks, for the process from which tests' servers are forked."""

import sash.cli
import sash.serve

sash.serve._load()

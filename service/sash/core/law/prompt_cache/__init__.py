"""A simulator of providers' prompt caches, and a window as their blocks: for ``sash replay``."""

"""Which messages a window has: the walk, the stable cut, what is sent of each, and why."""

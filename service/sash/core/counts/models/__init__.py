"""Models by name: families, vendors and templates with their rules, listed windows and prices."""

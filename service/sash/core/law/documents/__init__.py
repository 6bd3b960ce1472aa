"""A message's documents: their levels, what they cost, and which are sent."""

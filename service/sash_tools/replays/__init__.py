"""Replays of conversations: read, live again with two sets of parameters, and compare."""

"""The stand-in for the providers that the pages' programs talk to: what it refuses, what it says, how it streams."""

"""Judges of requests: every rule by which a provider answers 400, written from its documents and from reports.

They never call the code that writes requests, so that they cannot share its mistakes. The rules of hosts, makers and
templates are the service's own predicates (``core/providers/destinations/refusals.py``), which a running service asks too.
"""

"""Judges of requests: every rule by which a provider answers 400, written from its documents and from reports.

They never call the service's code, so that they cannot share its mistakes.
"""

"""Adapters that connect agent frameworks to a Sash server over HTTP.

An adapter runs in the framework's process, and the server elsewhere. So this package imports no other part of the service,
and adapters need only httpx2 in addition to their framework.
"""

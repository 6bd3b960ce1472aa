"""Adapters that connect agent frameworks to a Sash server over HTTP.

An adapter runs in the framework's process, and the server elsewhere. So this package imports nothing of the service, can be
installed without it, and needs only httpx2 in addition to a framework.
"""

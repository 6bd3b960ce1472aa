"""Sash inside other people's frameworks, over the HTTP contract.

They run where the framework runs and speak to a server elsewhere: nothing here imports another part of the service, and
httpx2 is all that they need beside their framework.
"""

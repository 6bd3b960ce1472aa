"""Sash inside other people's frameworks: each module is a class that a framework knows, over the HTTP contract.

They run where the framework runs and speak to a server elsewhere: nothing here imports the service's own parts but the
conversions of chat messages.
"""

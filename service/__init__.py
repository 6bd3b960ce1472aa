"""Sash holds chat conversations and hands back the messages to send.

A functional core and an imperative shell; arrows go one way::

    cli -> app -> api -> { store, core }

- ``core`` maps values to values: counts tokens, builds windows, renders requests. No I/O, no clock.
- ``store`` keeps conversations in Redis or Valkey; ``store/layout.py`` describes the data.
- ``api`` decodes a request, calls the two, encodes the answer; ``operations`` is what operators see.
- ``app.create_app(settings)`` puts them together; ``cli`` is the command line.
"""

__version__ = "0.1.0"

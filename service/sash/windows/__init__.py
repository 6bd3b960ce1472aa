"""Windows from end to end: reading, choosing messages, and the answer. HTTP and the command line call this package.

::

    GET …/window            POST …/messages?model=           POST /window, sash window
        │                        │                                │
        │ WindowQuery            │ WindowQuery, entries           │ WindowRequest
        ▼                        ▼                                ▼
    Windows.read_unless     Conversations.append             window_of_request
        │ first_read             │ append.lua, with a `Reach`     │ entries counted
        │ read_window.lua        │                                │
        ▼       one round trip   ▼                                │
    tails.tail_of ── a Tail: state, records, the newest bodies    │
        ▼                                                         │
    Windows.of_tail                                               │
        │ asked.plan_of          query, parts, model, budget      │
        │ tail.GrowingTail       what was read so far             │ all of it
        ▼                                                         ▼
    needs.SeenHistory
        ▼
    flow.window ── a generator: yields what it needs, is sent what was read (needs.py)
        │ core.law.build.build_window    the law, which chooses the messages: a Window of seqs and figures
        │ edits.as_sent, answer.woken    only where more is sent than texts as they are stored, or more is told
        │ figures are put into the plan's head, and stored bodies spliced in
        ▼
    answer.Made, whose body is sent unchanged

Each window of a stored history has a receipt (``receipts.py``), by which ``again.py`` makes it once more: the same flow, on
the tail of an earlier state. ``difference.py`` compares two windows.

Nothing of a conversation is kept between requests. A plan has none of it, and is kept with the settings that it follows
from. It tells whether a window of texts alone may have more than these (``WindowPlan.is_woken``): if neither the plan nor a
message nor a summary does, the steps that change messages, tell mends and add members are not taken. Each parameter is
declared once, in ``core/law/records/parameters.py``.
"""

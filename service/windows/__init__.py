"""A window from end to end: what is read, the law, the answer. HTTP and the command line call it.

::

    GET …/window            POST …/messages?model=           POST /window, sash window
        │                        │                                │
        │ WindowQuery            │ WindowQuery, entries           │ WindowRequest
        ▼                        ▼                                ▼
    Windows.read            Windows.append                   window_of_request
        │ scripts.read_window    │ scripts.append + read_window   │ entries counted
        ▼       one round trip   ▼                                │
    replies.tail_of ── a Tail: state, records, the newest bodies  │
        ▼                                                         │
    Windows.of_tail                                               │
        │ budgets.limits_of      model, reserve, budget           │
        │ tail.GrowingTail       reads older messages if asked    │
        ▼                                                         ▼
    core.window.build_window ── the law: NeedOlder, or a Window of seqs and figures
        ▼
    answer.make ── figures encoded, stored bodies spliced: Made, whose body is sent as it is

Nothing is held between requests. A parameter is declared once, in ``core/parameters.py``.
"""

"""The law: what a window of a history holds. A window is a plan over a table of rows, a row for each message::

    settings, query, model    fixed_parts.plan    Plan       what follows from these alone: made once, kept with the settings
    stored records            records.records     Records    the columns: role, calls, flags, tokens, bytes
    what was read             history.view        History    the rows, and the seq in the log of each
                                                  View       the same for one model: costs, units, and which are required
    a plan and a history      build               Window     the rows that are sent, and the figures

What a row costs, and which rows there are, is changed by passes, in this order. Each file says what its pass is for, when it
can matter, what wakes it, and what it does. A plain chat wakes none: what is left is a sum, a walk, and a join of bodies::

    history.perspective    one agent's rows           first: nothing that is hidden from it is looked at
    history.compaction     rows that one covers       before the order: a call stays if its result came behind it
    history.order          results behind calls       then units are known, and which of them are required
    limits.fitting         media as lines             around all that follows, which is done again if it is too large
    selection.sending      reasoning, fillers, names  costs, once all rows stand
    selection.cutting      long results               last of the costs: they have the room beside required rows

Then units are chosen. A unit is one message, or a call with its results; a walk keeps them, newest first, while they fit::

    selection.choice       the choice itself          documents, a stable cut, ``selection.walk``; again with summary, note;
                                                      then its figures, with reasoning that a provider still accepts

``windows.flow`` calls the first three passes, ``build`` the fourth, and ``choice`` those of costs: a new one stands there
and in this list. ``recall`` chooses what stands before the tail, and ``render`` writes the request.
"""

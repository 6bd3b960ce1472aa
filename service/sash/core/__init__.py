"""The core: pure functions of messages, models and windows. Where to begin, by what you want to know:

::

    a message   messages    checks and encodes it; ``native`` reads a provider's own form
                measures    its tokens in both encodings, and all else of it that costs
                records     24 bytes of it, from which most windows are computed
    a model     models      its encoding, limits and rules, from openai_models, listings, families and vendors
                counting    a measure's tokens for it; ``costs`` counts thousands of records at once
                estimates   the same without its vocabulary, by the scripts of the text
    a window    window      the law, which chooses the messages
                view        a history for one model, in units that are kept or left out together
                            then ``sending``, ``fixed``, ``documents``, ``stable``, ``walk``, ``binding``: steps of the law
    a request   render      stored bodies spliced into it; ``formats`` writes the other forms, ``hints`` marks its cache
    recall      recall      older messages, found by ``words`` and ``ranking``
"""

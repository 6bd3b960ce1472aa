"""The core: pure functions of messages, models and windows, in four rooms. Imports go from the first to the last::

    law         what a window holds
    counts      what a message or a request costs
    providers   how each provider writes it: one file a provider, one record
    chat        what a message is

Where to begin, by what you want to know::

    a message   chat.messages       checks and encodes it
                counts.measures     its tokens in both encodings, and all else of it that costs
                law.records         24 bytes of it, from which most windows are computed
    a provider  providers.provider  the record; ``providers.anthropic`` is one, whole
                providers.native    own messages as chat messages, and back
                providers.members   which members of a chat message are sent
    a model     counts.models       its encoding, limits and rules, from openai_models, listings, families and vendors
                counts.counting     a measure's tokens for it; ``law.costs`` counts thousands of records at once
                counts.estimates    the same without its vocabulary, by the writing systems of the text
    a window    law.terms           what it is made of beside the history, and for which model
                law.build           the law: a sum for a plain chat, and all rules (``choice``) for others
                law.view            a history for one model, in units that are kept or left out together
                                    then ``sending``, ``fixed``, ``documents``, ``stable``, ``walk``, ``binding``: its steps
                law.fitting         pictures and bytes inside the provider's limits, before the law chooses messages
    a request   law.render          stored bodies spliced into it
    recall      law.recall          older messages, found by ``words`` and ``ranking``

The way of one message from its reading to its cost, with a test: CONTRIBUTING.md, "From a message to its cost".
"""

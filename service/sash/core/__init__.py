"""The core: pure functions of messages, models and windows. Imports go from the first line to the last, and inside a line
from the left to the right::

    screens     each screen's form, by name                                             what a person sees of the same log
    agree                                                               what makes the log say what a sender's chat says
    measured_entries                                    an entry, from what was sent to what is stored of it
    search      excerpts, ranking -> words              what older messages bear on a question
    law         build, render -> limits -> selection -> fixed_parts -> history -> documents, recall -> records
                                                                                        what a window holds
    stored                                              what is stored of a message beside its text
    counts      requests -> costs -> measures -> models -> text                         what a message or a request costs
    providers   reading -> a room for each maker -> form -> writing -> messages
                                                                                        how each provider writes it
    chat                                                                                what a message is

Where to begin, by what you want to know::

    a message   chat.messages                   checks and encodes it; ``chat.tool_groups`` tells its calls
                measured_entries                an entry, checked and measured
                counts.measures.measures        its tokens in both encodings, and all else of it that costs
                law.records.records             28 bytes of it, from which most windows are computed
    a provider  providers.form.provider         the record; ``providers.anthropic.anthropic`` is one, whole
                providers.reading.native        own messages as chat messages, and back
                providers.messages.members      which members of a chat message are sent
    a model     counts.models.models            its encoding, limits and rules
                counts.costs.counting           a measure's tokens for it; ``law.records.costs`` counts thousands at once
                counts.costs.estimates          the same without its vocabulary, by the writing systems of the text
    a window    law                             a plan, a table, and the passes over it, in their order
                law.build                       near a limit ``limits.fitting``, else ``selection.choice`` at once
    a request   law.render                      stored bodies spliced into it
    recall      law.recall                      older messages, found by ``search.words`` and ``search.ranking``
    a PUT       agree.agreement                 the messages that stay, and those that are appended

The way of one message from its reading to its cost, with a test: CONTRIBUTING.md, "From a message to its cost".
"""

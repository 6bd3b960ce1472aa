-- A key that remains of a conversation without its hash; nil where there is no conversation.
local left = redis.call('EXISTS', log, counts, details, ids, grounding, metadata, pinned) > 0 and 'conversation' or nil

-- A function of scripts that read a conversation.
-- The key that is missing or too short, if any: an evicted key must not look like a shorter history.
local function damage(length, pins, grounded)
  local counted, detailed = redis.call('STRLEN', counts) / RECORD, redis.call('LLEN', details)
  if counted ~= length then return counted == detailed and 'log' or 'counts' end
  if detailed ~= length then return 'details' end
  if pins and pins ~= '0' and redis.call('HLEN', pinned) ~= tonumber(pins) then return 'pinned' end
  if grounded and grounded ~= '0' and redis.call('HLEN', grounding) < tonumber(grounded) then return 'grounding' end
end

-- Functions of scripts that take messages away, for the compactions that stand. The field `compactions` has the newest one of
-- each form, such as 'anthropic 40 responses 20'. Among the entries' ids, a zero byte, 'compaction:' and a compaction's seq lead
-- to its seq, and behind it the field as it was before.

local function newest_compaction(standing)
  local newest = 0
  for seq in string.gmatch(standing, '%d+') do newest = math.max(newest, tonumber(seq)) end
  return newest
end

-- What the field was when message `last` was the newest.
local function compactions_at(standing, last)
  local kept = standing or ''
  local newest = newest_compaction(kept)
  while newest > last do
    kept = string.match(redis.call('HGET', ids, '\0compaction:' .. newest) or '', '^%d+ ?(.*)$') or ''
    newest = newest_compaction(kept)
  end
  return kept
end

-- Set the field to what it was when message `last` was the newest.
local function withdraw_compactions(standing, last)
  local kept = standing or ''
  local newest = newest_compaction(kept)
  if newest <= last then return end
  while newest > last do
    local id = '\0compaction:' .. newest
    kept = string.match(redis.call('HGET', ids, id) or '', '^%d+ ?(.*)$') or ''
    redis.call('HDEL', ids, id)
    newest = newest_compaction(kept)
  end
  if kept == '' then
    redis.call('HDEL', conversation, 'compactions')
  else
    redis.call('HSET', conversation, 'compactions', kept)
  end
end

-- Forget the summary if it covers more than message `last`; gives whether it did.
local function forget_summary(last)
  local covers_more = tonumber(redis.call('HGET', conversation, 'through') or 0) > last
  if covers_more then redis.call('HDEL', conversation, 'summary', 'through') end
  return covers_more
end

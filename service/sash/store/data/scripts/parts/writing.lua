-- Functions of scripts that write a conversation.
local KEPT, DAY = 13, 86400000

-- Renew the time to live of all keys. Tokens of requests expire after a day at the latest.
local function renew(ttl)
  if not ttl then return end
  for index = 1, KEPT do redis.call('PEXPIRE', KEYS[index], ttl) end
  redis.call('PEXPIRE', done, math.min(ttl, DAY))
end

local function was_done(token) return redis.call('HEXISTS', done, token) == 1 end

-- Note that a request was done, so that a repetition changes nothing. Not every server can expire fields, so each new
-- field drops a few old ones.
local function mark_done(token, now, ttl)
  redis.call('HSET', done, token, now)
  local some = redis.call('HRANDFIELD', done, 4, 'WITHVALUES')
  for index = 1, #some, 2 do
    if some[index + 1] + DAY < tonumber(now) then redis.call('HDEL', done, some[index]) end
  end
  redis.call('PEXPIRE', done, math.min(ttl or DAY, DAY))
end

-- Drop documents and metadata of up to CHUNK messages that a rewind took away; `stale` is the last seq that may have some.
local function sweep(length, stale)
  local first, seqs = math.max(length, stale - CHUNK) + 1, {}
  for seq = first, stale do seqs[#seqs + 1] = seq end
  if #seqs > 0 then
    redis.call('HDEL', grounding, unpack(seqs))
    redis.call('HDEL', metadata, unpack(seqs))
  end
  if first - 1 <= length then
    redis.call('HDEL', conversation, 'stale')
    return 0
  end
  redis.call('HSET', conversation, 'stale', first - 1)
  return first - 1
end

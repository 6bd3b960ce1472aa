#!lua flags=no-writes
-- Read a stretch of history with all that is kept about it.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned
-- ARGV  1 first seq, or negative from the end   2 last seq, or negative
-- Gives {} or {tenant/conversation, version, length, first seq, records joined,
--       {details, …}, {body, …}, {documents or false, …}, {metadata or false, …}}
local RECORD = 24
local state = redis.call('HMGET', KEYS[1], 'id', 'v')
if not state[1] then return {} end
local length = redis.call('LLEN', KEYS[2])
local first, last = tonumber(ARGV[1]), tonumber(ARGV[2])
if first < 0 then first = length + 1 + first end
if last < 0 then last = length + 1 + last end
first = math.max(first, 1)
last = math.min(last, length)
if last < first then
  return {state[1], state[2], length, first, '', {}, {}, {}, {}}
end
local seqs = {}
for seq = first, last do seqs[#seqs + 1] = seq end
return {
  state[1], state[2], length, first,
  redis.call('GETRANGE', KEYS[3], (first - 1) * RECORD, last * RECORD - 1),
  redis.call('LRANGE', KEYS[4], first - 1, last - 1), redis.call('LRANGE', KEYS[2], first - 1, last - 1),
  redis.call('HMGET', KEYS[6], unpack(seqs)), redis.call('HMGET', KEYS[7], unpack(seqs)),
}

#!lua flags=allow-oom
-- Forget what came after a message.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned, answers, done
-- ARGV  1 version that the figures below were made for   2 token of this request   3 now (ms)   4 last seq to keep
--       5 6 tokens less, o200k and cl100k   7 messages with documents less   8 9 tokens of documents less
--       10 tool group that is open then (JSON), or ''   11 and on: seqs that are no longer in every window
-- Gives {'ok', version}, {'moved', version} or {}
-- include keeping.lua
local CHUNK, USER, RECORD = 1000, 2, 24
local conversation, log, counts, details, _, grounding, metadata, pinned, answers = unpack(KEYS)
local state = redis.call('HMGET', conversation, 'v', 'ttl', 'through', 'user')
if not state[1] then return {} end
if was_done(ARGV[2]) then return {'ok', state[1]} end
if state[1] ~= ARGV[1] then return {'moved', state[1]} end
local keep, length = tonumber(ARGV[4]), redis.call('LLEN', log)
if keep == length then -- nothing to forget now; what comes next is not to be forgotten by a retry
  mark_done(ARGV[2], ARGV[3], state[2])
  return {'ok', state[1]}
end

if keep == 0 then
  redis.call('DEL', log, counts, details)
else
  redis.call('LTRIM', log, 0, keep - 1)
  redis.call('LTRIM', details, 0, keep - 1)
  redis.call('SET', counts, redis.call('GETRANGE', counts, 0, keep * RECORD - 1))
end
-- Nothing kept by seq may wait for another message to take that seq.
for _, key in ipairs({grounding, metadata, pinned}) do
  local held = redis.call('HLEN', key)
  if held > 0 and held < length - keep then
    for _, seq in ipairs(redis.call('HKEYS', key)) do
      if tonumber(seq) > keep then redis.call('HDEL', key, seq) end
    end
  elseif held > 0 then
    for first = keep + 1, length, CHUNK do
      local seqs = {}
      for seq = first, math.min(first + CHUNK - 1, length) do seqs[#seqs + 1] = seq end
      redis.call('HDEL', key, unpack(seqs))
    end
  end
end
for index = 11, #ARGV do redis.call('HDEL', pinned, ARGV[index]) end

local user, last = tonumber(state[4] or 0), keep
if user > keep then
  user = 0
  while user == 0 and last > 0 do
    local first = math.max(1, last - CHUNK + 1)
    local records = redis.call('GETRANGE', counts, (first - 1) * RECORD, last * RECORD - 1)
    for seq = last, first, -1 do
      if user == 0 and string.byte(records, (seq - first) * RECORD + 2) == USER then user = seq end
    end
    last = first - 1
  end
end
-- Subtracted, because a minus before 0 is a -0, which Redis 7 takes for no integer.
for place, field in ipairs({'t0', 't1', 'gn', 'g0', 'g1'}) do
  redis.call('HINCRBY', conversation, field, 0 - ARGV[4 + place])
end
if tonumber(state[3] or 0) > keep then redis.call('HDEL', conversation, 'summary', 'through') end
local version = redis.call('HINCRBY', conversation, 'v', 1)
redis.call('HSET', conversation, 'updated', ARGV[3], 'edited', version, 'edited_ms', ARGV[3], 'user', user, 'open', ARGV[10])
redis.call('UNLINK', answers)
mark_done(ARGV[2], ARGV[3], state[2])
renew(state[2])
return {'ok', version}

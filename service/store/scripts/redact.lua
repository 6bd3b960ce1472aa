#!lua flags=allow-oom
-- Put a message without content in the place of one with it.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned, answers, done
-- ARGV  1 version that must stand, '*' for any, or ''   2 token of this request   3 now (ms)   4 seq   5 record that must stand
--       6 new record   7 its details   8 new body   9 10 tokens less, o200k and cl100k   11 messages with documents less
--       12 13 tokens of documents less
-- Gives {'ok', version}, {'moved', version}, {'changed'} when another record stands there, or {}
-- include keeping.lua
local RECORD, RICH, SEALED = 24, 64, 1
local conversation, log, counts, details, _, grounding, metadata, pinned, answers = unpack(KEYS)
local state = redis.call('HMGET', conversation, 'v', 'ttl', 'through')
if not state[1] then return {} end
if was_done(ARGV[2]) then return {'ok', state[1]} end
if ARGV[1] ~= '' and ARGV[1] ~= '*' and state[1] ~= ARGV[1] then return {'moved', state[1]} end
local seq = tonumber(ARGV[4])
local standing = redis.call('LINDEX', details, seq - 1)
if not standing or redis.call('GETRANGE', counts, (seq - 1) * RECORD, seq * RECORD - 1) .. standing ~= ARGV[5] then
  return {'changed'}
end

redis.call('SETRANGE', counts, (seq - 1) * RECORD, ARGV[6])
redis.call('LSET', details, seq - 1, ARGV[7])
redis.call('LSET', log, seq - 1, ARGV[8])
if math.floor(string.byte(ARGV[6]) / RICH) % 2 == 1 then redis.call('HSET', conversation, 'rich', 1) end
if string.byte(ARGV[8]) == SEALED then redis.call('HSET', conversation, 'sealed', 1) end
redis.call('HDEL', grounding, seq)
redis.call('HDEL', metadata, seq)
if redis.call('HEXISTS', pinned, seq) == 1 then
  redis.call('HSET', pinned, seq, struct.pack('>I4', #ARGV[7]) .. ARGV[6] .. ARGV[7] .. ARGV[8])
end
-- Subtracted, because a minus before 0 is a -0, which Redis 7 takes for no integer.
for place, field in ipairs({'t0', 't1', 'gn', 'g0', 'g1'}) do
  redis.call('HINCRBY', conversation, field, 0 - ARGV[8 + place])
end
-- A summary of it may say what it said.
if tonumber(state[3] or 0) >= seq then redis.call('HDEL', conversation, 'summary', 'through') end
local version = redis.call('HINCRBY', conversation, 'v', 1)
redis.call('HSET', conversation, 'updated', ARGV[3], 'edited', version, 'edited_ms', ARGV[3])
-- So may answers that are kept to be given again.
redis.call('UNLINK', answers)
mark_done(ARGV[2], ARGV[3], state[2])
renew(state[2])
return {'ok', version}

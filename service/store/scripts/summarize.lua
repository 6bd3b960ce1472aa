#!lua
-- Put, replace or take away the summary.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned, answers, done
-- ARGV  1 version that must stand, '*' for any, or ''   2 token of this request   3 now (ms)   4 summary (JSON), or '' for none
--       5 last seq that it covers   6 value of 'edited' that must stand, or ''   7 last seq that the present summary
--       covers, or '' for any
-- Gives {'ok', version}, {'moved', version}, {'short', length} or {}
-- include keeping.lua
local conversation, log = KEYS[1], KEYS[2]
local state = redis.call('HMGET', conversation, 'v', 'ttl', 'edited', 'through')
if not state[1] then return {} end
if was_done(ARGV[2]) then return {'ok', state[1]} end
if ARGV[1] ~= '' and ARGV[1] ~= '*' and state[1] ~= ARGV[1] then return {'moved', state[1]} end
if ARGV[6] ~= '' and (state[3] or '0') ~= ARGV[6] then return {'moved', state[1]} end
if ARGV[7] ~= '' and (state[4] or '0') ~= ARGV[7] then return {'moved', state[1]} end
local length = redis.call('LLEN', log)
if ARGV[4] == '' then
  redis.call('HDEL', conversation, 'summary', 'through')
elseif tonumber(ARGV[5]) > length then
  return {'short', length}
else
  redis.call('HSET', conversation, 'summary', ARGV[4], 'through', ARGV[5])
end
local version = redis.call('HINCRBY', conversation, 'v', 1)
redis.call('HSET', conversation, 'updated', ARGV[3])
mark_done(ARGV[2], ARGV[3], state[2])
renew(state[2])
return {'ok', version}

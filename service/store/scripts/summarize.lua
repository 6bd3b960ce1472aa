#!lua
-- Put, replace or take away the summary.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned, answers
-- ARGV  1 version that must stand, '*' for any, or ''   2 token of this request   3 now (ms)   4 summary (JSON), or '' for none
--       5 last seq that it covers   6 value of 'edited' that must stand, or ''   7 last seq that the present summary
--       covers, or '' for any
-- Gives {'ok', version}, {'moved', version}, {'short', length} or {}
local conversation, log, answers = KEYS[1], KEYS[2], KEYS[9]
local state = redis.call('HMGET', conversation, 'v', 'ttl', 'edited', 'through')
if not state[1] then return {} end
if redis.call('HEXISTS', answers, ARGV[2]) == 1 then return {'ok', state[1]} end
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
redis.call('HSET', answers, ARGV[2], ARGV[3])
redis.call('PEXPIRE', answers, 86400000)
if state[2] then
  for index = 1, 8 do redis.call('PEXPIRE', KEYS[index], state[2]) end
  if tonumber(state[2]) < 86400000 then redis.call('PEXPIRE', answers, state[2]) end
end
return {'ok', version}

#!lua
-- Take an idempotency key for one run of its request.
--
-- KEYS  claim
-- ARGV  1 fingerprint of the request   2 name of this run   3 now (ms)   4 how long a run holds it (ms)   5 how long it
--       is remembered (ms)
-- Gives {'run', when the first run began, 1 if an earlier run may have changed something}, {'busy'}, {'other'} for
-- another request under this key, or {'done', answer}
local state = redis.call('HMGET', KEYS[1], 'fingerprint', 'run', 'until', 'began', 'answer')
if not state[1] then
  redis.call('HSET', KEYS[1], 'fingerprint', ARGV[1], 'run', ARGV[2], 'until', ARGV[3] + ARGV[4], 'began', ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
  return {'run', ARGV[3], 0}
end
if state[1] ~= ARGV[1] then return {'other'} end
if state[5] then return {'done', state[5]} end
if state[2] == ARGV[2] then return {'run', state[4], 0} end
local held = tonumber(state[3])
if held > tonumber(ARGV[3]) then return {'busy'} end
redis.call('HSET', KEYS[1], 'run', ARGV[2], 'until', ARGV[3] + ARGV[4])
return {'run', state[4], held > 0 and 1 or 0}

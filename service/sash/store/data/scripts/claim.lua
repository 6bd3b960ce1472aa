#!lua
-- Take an idempotency key for one run of its request.
--
-- KEYS  claim
-- ARGV  1 fingerprint of the request   2 name of this run   3 now (ms)   4 how long a run holds it (ms)   5 how long it
--       is remembered (ms)
-- Gives {'run', when the first run began, 1 if an earlier run may have changed something}, {'busy'}, {'other'} for
-- another request under this key, or {'done', when the first run began, status, life, SHA-256 of a streamed body}
local key = KEYS[1]
local fingerprint, run, held, began, status, life, read =
  unpack(redis.call('HMGET', key, 'fingerprint', 'run', 'until', 'began', 'status', 'life', 'read'))
if not fingerprint then
  redis.call('HSET', key, 'fingerprint', ARGV[1], 'run', ARGV[2], 'until', ARGV[3] + ARGV[4], 'began', ARGV[3])
  redis.call('PEXPIRE', key, ARGV[5])
  return {'run', ARGV[3], 0}
end
if fingerprint ~= ARGV[1] then return {'other'} end
if status then return {'done', began, status, life or '', read or ''} end
if run == ARGV[2] then return {'run', began, 0} end
if tonumber(held) > tonumber(ARGV[3]) then return {'busy'} end
redis.call('HSET', key, 'run', ARGV[2], 'until', ARGV[3] + ARGV[4])
return {'run', began, tonumber(held) > 0 and 1 or 0}

#!lua
-- Give a staged conversation its name, in one step.
--
-- KEYS  the conversation's keys as always, then the same keys as staged, without done
-- ARGV  1 token of this request   2 messages that must be staged   3 ttl (ms) or ''   4 random name of this write
--       5 version   6 now (ms)   7 and on: fields of the conversation, and their values
-- Gives {'ok', etag}, {'exists'}, {'lost'} when staged keys have expired, or {'damaged', part}
-- include conversation, damage, versions, writing
local STAGED = 14
local version, life, change, token = unpack(redis.call('HMGET', conversation, 'v', 'life', 'change', 'token'))
if version then
  if token ~= ARGV[1] then return {'exists'} end
  return {'ok', etag_of(version, life, change)}
end
-- include remains
if left then return {'damaged', left} end
local messages = tonumber(ARGV[2])
if redis.call('LLEN', KEYS[STAGED + 2]) ~= messages then return {'lost'} end
redis.call('UNLINK', words, vectors, media, branches, done)
for index = 1, KEPT do
  if redis.call('EXISTS', KEYS[STAGED + index]) == 1 then
    redis.call('RENAME', KEYS[STAGED + index], KEYS[index])
    redis.call('PERSIST', KEYS[index])
  end
end
if damage(messages, redis.call('HGET', conversation, 'pins') or 0, redis.call('HGET', conversation, 'gn')) then
  redis.call('UNLINK', unpack(KEYS, 1, STAGED)) -- a part of it had expired
  return {'lost'}
end
redis.call('HDEL', conversation, 'ttl', 'changes', 'change_times')
redis.call('HSET', conversation, 'life', ARGV[4], 'token', ARGV[1], unpack(ARGV, 7))
local etag = write_change(DID_BEGIN, 0, 0, ARGV[5], ARGV[4], ARGV[4], ARGV[6])
if ARGV[3] ~= '' then
  redis.call('HSET', conversation, 'ttl', ARGV[3])
  renew(ARGV[3])
end
return {'ok', etag}

#!lua
-- Put other settings.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned
-- ARGV  1 version that must stand, '*' for any, or ''   2 settings   3 ttl (ms) or ''   4 now (ms)
--       5 settings that must stand   6 token of this request
-- Gives {'ok', version}, {'moved', version} or {}
local version, standing, token = unpack(redis.call('HMGET', KEYS[1], 'v', 's', 'token'))
if not version then return {} end
if token == ARGV[6] then return {'ok', version} end -- asked again, because the first reply was lost
if standing ~= ARGV[5] or (ARGV[1] ~= '' and ARGV[1] ~= '*' and ARGV[1] ~= version) then
  return {'moved', version}
end
local new = redis.call('HINCRBY', KEYS[1], 'v', 1)
redis.call('HSET', KEYS[1], 's', ARGV[2], 'updated', ARGV[4], 'token', ARGV[6])
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'ttl', ARGV[3])
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[3]) end
else
  redis.call('HDEL', KEYS[1], 'ttl')
  for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
end
return {'ok', new}

#!lua
-- Put other settings.
--
-- KEYS  conversation, log, counts, ids, grounding, metadata, pinned
-- ARGV  1 version that must stand   2 settings   3 ttl (ms) or ''   4 now (ms)
-- Gives {'ok', version}, {'moved', version} or {}
local version = redis.call('HGET', KEYS[1], 'v')
if not version then return {} end
if version ~= ARGV[1] then return {'moved', version} end
local new = redis.call('HINCRBY', KEYS[1], 'v', 1)
redis.call('HSET', KEYS[1], 's', ARGV[2], 'updated', ARGV[4])
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'ttl', ARGV[3])
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[3]) end
else
  redis.call('HDEL', KEYS[1], 'ttl')
  for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
end
return {'ok', new}

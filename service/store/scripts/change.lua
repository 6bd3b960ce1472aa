#!lua
-- Put other settings.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned, answers, done
-- ARGV  1 version that must stand, '*' for any, or ''   2 settings   3 ttl (ms) or ''   4 now (ms)
--       5 settings that must stand   6 token of this request   7 owner, or '' when there is none or the settings are readable
-- Gives {'ok', version}, {'moved', version} or {}
-- include keeping.lua
local version, standing = unpack(redis.call('HMGET', KEYS[1], 'v', 's'))
if not version then return {} end
if was_done(ARGV[6]) then return {'ok', version} end
if standing ~= ARGV[5] or (ARGV[1] ~= '' and ARGV[1] ~= '*' and ARGV[1] ~= version) then
  return {'moved', version}
end
local new = redis.call('HINCRBY', KEYS[1], 'v', 1)
redis.call('HSET', KEYS[1], 's', ARGV[2], 'updated', ARGV[4])
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[1], 'owner', ARGV[7])
else
  redis.call('HDEL', KEYS[1], 'owner')
end
local ttl = ARGV[3] ~= '' and ARGV[3] or nil
mark_done(ARGV[6], ARGV[4], ttl)
if ttl then
  redis.call('HSET', KEYS[1], 'ttl', ttl)
  renew(ttl)
else
  redis.call('HDEL', KEYS[1], 'ttl')
  for index = 1, KEPT do redis.call('PERSIST', KEYS[index]) end
  redis.call('PEXPIRE', KEYS[ANSWERS], DAY)
end
return {'ok', new}

#!lua
-- Replace the settings of a conversation.
--
-- ARGV  1 life that must stand   2 entity tag that must stand, '*' or ''   3 settings   4 ttl (ms) or ''   5 now (ms)
--       6 settings that must stand   7 token of this request   8 owner, or '' when there is none or the settings are readable
--       9 random name of this write   10 '1' to forget the words of its messages, 11 '1' the vectors
--       12 the settings that windows had, or '' where windows stay as they are
-- Gives {'ok', version, etag}, {'moved', version, etag}, or {} when that life has ended
-- include conversation, versions, writing, earlier
local version, life, change, standing = unpack(redis.call('HMGET', conversation, 'v', 'life', 'change', 's'))
if not version or life ~= ARGV[1] then return {} end
if was_done(ARGV[7]) then return {'ok', version, etag_of(version, life, change)} end
local before = etag_of(version, life, change)
if standing ~= ARGV[6] or not stands(ARGV[2], before) then return {'moved', version, before} end
if ARGV[12] ~= '' then
  local kept = with_earlier(redis.call('HGET', conversation, 'settings_before'), version, 0, ARGV[12])
  redis.call('HSET', conversation, 'settings_before', kept)
end
redis.call('HSET', conversation, 's', ARGV[3])
if ARGV[10] == '1' then redis.call('UNLINK', words) end
if ARGV[11] == '1' then redis.call('UNLINK', vectors) end
-- Writes to the index that are under way must not take effect later.
if ARGV[10] == '1' or ARGV[11] == '1' then redis.call('HSET', conversation, 'edited', ARGV[9]) end
if ARGV[8] ~= '' then
  redis.call('HSET', conversation, 'owner', ARGV[8])
else
  redis.call('HDEL', conversation, 'owner')
end
local etag = write_change(DID_SET, 0, 0, version + 1, life, ARGV[9], ARGV[5])
local ttl = ARGV[4] ~= '' and ARGV[4] or nil
mark_done(ARGV[7], ARGV[5], ttl)
if ttl then
  redis.call('HSET', conversation, 'ttl', ttl)
  renew(ttl)
else
  redis.call('HDEL', conversation, 'ttl')
  for index = 1, KEPT do redis.call('PERSIST', KEYS[index]) end
end
return {'ok', version + 1, etag}

#!lua
-- Create a conversation without messages.
--
-- ARGV  1 name (tenant/conversation)   2 settings   3 now (ms)   4 ttl (ms) or ''   5 token of this request
--       6 owner, or '' when there is none or the settings are readable   7 random name of this write
-- Gives {'ok', etag}, {'exists'} when another request made it, or {'damaged', part}
-- include conversation, versions, writing
local version, life, change, token = unpack(redis.call('HMGET', conversation, 'v', 'life', 'change', 'token'))
if version then
  if token ~= ARGV[5] then return {'exists'} end
  return {'ok', etag_of(version, life, change)}
end
-- include remains
if left then return {'damaged', left} end
redis.call('UNLINK', words, vectors, media, branches, done)
redis.call('HSET', conversation, 'id', ARGV[1], 'life', ARGV[7], 's', ARGV[2], 'created', ARGV[3], 'token', ARGV[5])
if ARGV[6] ~= '' then redis.call('HSET', conversation, 'owner', ARGV[6]) end
local etag = write_version(1, ARGV[7], ARGV[7], ARGV[3])
if ARGV[4] ~= '' then
  redis.call('HSET', conversation, 'ttl', ARGV[4])
  redis.call('PEXPIRE', conversation, ARGV[4])
end
return {'ok', etag}

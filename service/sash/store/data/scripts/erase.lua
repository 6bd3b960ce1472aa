#!lua flags=allow-oom
-- Erase all keys of a conversation, and those that remain of a damaged one.
--
-- ARGV  1 life that must stand, or '' for any   2 entity tag that must stand, '*' or ''
-- Gives {'ok', version, '', then each object in object storage, as in media.lua}, {'moved', version, etag}, or {} when that life
-- has ended
-- include conversation, versions, writing, media
local version, life, change, followed = unpack(redis.call('HMGET', conversation, 'v', 'life', 'change', 'followed'))
if not version then
-- include remains
  if not left then return {} end
  redis.call('UNLINK', unpack(KEYS))
  return {'ok', 0, ''}
end
if ARGV[1] ~= '' and life ~= ARGV[1] then return {} end
local before = etag_of(version, life, change)
if not stands(ARGV[2], before) then return {'moved', version, before} end
for _, name in ipairs(redis.call('HKEYS', media)) do
  if #name == NAME then release(name, math.huge) end
end
redis.call('UNLINK', unpack(KEYS))
wake(followed, 0)
return with_freed({'ok', version, ''})

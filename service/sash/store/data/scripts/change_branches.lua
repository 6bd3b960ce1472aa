#!lua flags=allow-oom
-- Drop a branch, with those that hang in it; or replace contents, in which an entry is redacted.
--
-- ARGV  1 life that must stand   2 entity tag that must stand, '*' or ''   3 token of this request   4 now (ms)
--       5 random name of this write   6 heads that must stand   7 number of the branch to drop, or 0   8 as in `replace_contents`
-- Gives {'ok', version, etag, then each object in object storage, as in media.lua}, {'moved', version, etag}, {'changed'} when
-- there are other branches, or {} when that life has ended
-- include conversation, versions, writing, media, branches, contents
local version, life, change, ttl = unpack(redis.call('HMGET', conversation, 'v', 'life', 'change', 'ttl'))
if not version or life ~= ARGV[1] then return {} end
local before = etag_of(version, life, change)
if was_done(ARGV[3]) then return {'ok', version, before} end
if not stands(ARGV[2], before) then return {'moved', version, before} end
if (redis.call('HGET', branches, 'heads') or '') ~= ARGV[6] then return {'changed'} end
local denial = denial_of({'HDEL', 'HGET', 'HRANDFIELD', 'HSET', 'PEXPIRE'})
if denial then return denial end

replace_contents(ARGV[8], ARGV[5])
if ARGV[7] ~= '0' then
  local heads, last = read_heads()
  local kept, _, freeing = drop_branches(heads, {[tonumber(ARGV[7])] = true})
  write_heads(kept, last, ARGV[5])
  release_all(freeing)
end
local etag = write_change(DID_BRANCH, 0, 0, version + 1, life, ARGV[5], ARGV[4], {'edited', ARGV[5]})
mark_done(ARGV[3], ARGV[4], ttl)
renew(ttl)
return with_freed({'ok', version + 1, etag})

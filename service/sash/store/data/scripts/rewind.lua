#!lua flags=allow-oom
-- Forget the messages after one message.
--
-- ARGV  1 life that must stand   2 entity tag that the figures below were made for   3 token of this request   4 now (ms)
--       5 random name of this write   6 last seq to keep   7 8 tokens less, o200k and cl100k   9 messages with documents less
--       10 11 tokens of documents less   12 tool group that is open then (JSON), or ''   13 newest user message then, or 0
--       14 media, each with the number of forgotten messages that have it, as in media.lua   15 seal, as in branches.lua
--       16 and on: seqs that are no longer in every window
-- Gives {'ok', version, etag, last seq that may have documents or metadata left, {the numbers in branches.lua}, then each object
-- in object storage that no message has any more, as in media.lua}, {'moved', version, etag}, or {} when that life has ended
-- include conversation, versions, writing, blocks, compactions, forgetting, media, branches
local version, life, change, ttl, stale, compactions =
  unpack(redis.call('HMGET', conversation, 'v', 'life', 'change', 'ttl', 'stale', 'compactions'))
if not version or life ~= ARGV[1] then return {} end
local etag = etag_of(version, life, change)
if was_done(ARGV[3]) then return {'ok', version, etag, tonumber(stale or 0), {}} end
if etag ~= ARGV[2] then return {'moved', version, etag} end
local keep, length = tonumber(ARGV[6]), redis.call('LLEN', log)
if keep == length then -- nothing to forget now; a retry must not forget later messages
  mark_done(ARGV[3], ARGV[4], ttl)
  return {'ok', version, etag, tonumber(stale or 0), {}}
end
local denial = denial_of({'GETRANGE', 'HDEL', 'HINCRBY', 'HKEYS', 'HLEN', 'HMGET', 'HRANDFIELD', 'HSET', 'LTRIM', 'PEXPIRE', 'SET', 'UNLINK'})
if denial then return denial end

local unpinned = {}
for index = 16, #ARGV do unpinned[#unpinned + 1] = ARGV[index] end
local branched, freeing = seal(keep, length, {seal = ARGV[15], media = ARGV[14]}, ARGV[4], ARGV[5])
local left, without_summary = forget(keep, length, stale, {ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]}, unpinned)
release_all(freeing)
withdraw_compactions(compactions, keep)
redis.call('HSET', conversation, 'edited', ARGV[5], 'user', ARGV[13], 'open', ARGV[12], 'pins', redis.call('HLEN', pinned))
etag = write_change(DID_REWIND + (without_summary and DID_SUMMARIZE or 0), 0, length - keep, version + 1, life, ARGV[5], ARGV[4])
mark_done(ARGV[3], ARGV[4], ttl)
renew(ttl)
return with_freed({'ok', version + 1, etag, left, branched or {}})

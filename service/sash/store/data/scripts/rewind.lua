#!lua flags=allow-oom
-- Forget the messages after one message.
--
-- ARGV  1 life that must stand   2 entity tag that the figures below were made for   3 token of this request   4 now (ms)
--       5 random name of this write   6 last seq to keep   7 8 tokens less, o200k and cl100k   9 messages with documents less
--       10 11 tokens of documents less   12 tool group that is open then (JSON), or ''   13 newest user message then, or 0
--       14 and on: seqs that are no longer in every window
-- Gives {'ok', version, etag, last seq that may have documents or metadata left}, {'moved', version, etag}, or {} when that life
-- has ended
-- include conversation, versions, writing, blocks
local version, life, change, ttl, through, stale =
  unpack(redis.call('HMGET', conversation, 'v', 'life', 'change', 'ttl', 'through', 'stale'))
if not version or life ~= ARGV[1] then return {} end
local etag = etag_of(version, life, change)
if was_done(ARGV[3]) then return {'ok', version, etag, tonumber(stale or 0)} end
if etag ~= ARGV[2] then return {'moved', version, etag} end
local keep, length = tonumber(ARGV[6]), redis.call('LLEN', log)
if keep == length then -- nothing to forget now; a retry must not forget later messages
  mark_done(ARGV[3], ARGV[4], ttl)
  return {'ok', version, etag, tonumber(stale or 0)}
end
local denial = denial_of({'GETRANGE', 'HDEL', 'HINCRBY', 'HKEYS', 'HLEN', 'HRANDFIELD', 'HSET', 'LTRIM', 'PEXPIRE', 'SET', 'UNLINK'})
if denial then return denial end

if keep == 0 then
  redis.call('UNLINK', log, counts, details, words, vectors)
else
  redis.call('LTRIM', log, 0, keep - 1)
  redis.call('LTRIM', details, 0, keep - 1)
  cut_index(words, keep)
  cut_index(vectors, keep)
  redis.call('SET', counts, redis.call('GETRANGE', counts, 0, keep * RECORD - 1))
end
for _, seq in ipairs(redis.call('HKEYS', pinned)) do
  if tonumber(seq) > keep then redis.call('HDEL', pinned, seq) end
end
for index = 14, #ARGV do redis.call('HDEL', pinned, ARGV[index]) end
local left = 0
if redis.call('HLEN', grounding) + redis.call('HLEN', metadata) > 0 then
  left = sweep(keep, math.max(length, tonumber(stale or 0)))
end
-- Subtracted from 0, because -n would be -0 where n is 0, and Redis 7 does not accept -0 as an integer.
for place, field in ipairs({'t0', 't1', 'gn', 'g0', 'g1'}) do
  redis.call('HINCRBY', conversation, field, 0 - ARGV[6 + place])
end
if tonumber(through or 0) > keep then redis.call('HDEL', conversation, 'summary', 'through') end
redis.call('HSET', conversation, 'edited', ARGV[5], 'user', ARGV[13], 'open', ARGV[12], 'pins', redis.call('HLEN', pinned))
redis.call('UNLINK', columns)
etag = write_version(version + 1, life, ARGV[5], ARGV[4])
mark_done(ARGV[3], ARGV[4], ttl)
renew(ttl)
return {'ok', version + 1, etag, left}

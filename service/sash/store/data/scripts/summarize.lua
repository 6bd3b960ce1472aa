#!lua
-- Put, replace or remove the summary.
--
-- ARGV  1 life that must stand   2 entity tag that must stand, '*' or ''   3 token of this request   4 now (ms)
--       5 random name of this write   6 summary (JSON), or '' for none   7 last seq that it covers
--       8 value of 'edited' that must stand, or '*'   9 last seq that the present summary covers, or '*' for any
-- Gives {'ok', version, etag}, {'moved', version, etag}, {'short', last seq that a summary may cover}, or {} when that life has ended
-- include conversation, versions, writing, earlier
local version, life, change, ttl, edited, through, summary, kept =
  unpack(redis.call('HMGET', conversation, 'v', 'life', 'change', 'ttl', 'edited', 'through', 'summary', 'summaries_before'))
if not version or life ~= ARGV[1] then return {} end
if was_done(ARGV[3]) then return {'ok', version, etag_of(version, life, change)} end
local before = etag_of(version, life, change)
if not stands(ARGV[2], before) then return {'moved', version, before} end
if ARGV[8] ~= '*' and string.match(edited or '', '^[^~]*') ~= ARGV[8] then return {'moved', version, before} end
if ARGV[9] ~= '*' and (through or '0') ~= ARGV[9] then return {'moved', version, before} end
-- A reply in progress is replaced by its next part, so no summary covers it.
local last = redis.call('LLEN', log)
if last > 0 and string.byte(redis.call('GETRANGE', counts, last * RECORD - RECORD, -1), 4) >= IN_PROGRESS then last = last - 1 end
if ARGV[6] == '' then
  -- Who removes a summary wants its text gone, and so are earlier ones.
  redis.call('HDEL', conversation, 'summary', 'through')
  redis.call('HSET', conversation, 'summaries_before', with_earlier(kept, version, through or 0, summary or ''))
  forget_earlier_summaries(0)
elseif tonumber(ARGV[7]) > last then
  return {'short', last}
else
  kept = with_earlier(kept, version, through or 0, summary or '')
  redis.call('HSET', conversation, 'summary', ARGV[6], 'through', ARGV[7], 'summaries_before', kept)
end
local etag = write_change(DID_SUMMARIZE, 0, 0, version + 1, life, ARGV[5], ARGV[4])
mark_done(ARGV[3], ARGV[4], ttl)
renew(ttl)
return {'ok', version + 1, etag}

#!lua flags=allow-oom
-- Replace a message by one without content.
--
-- ARGV  1 life that must stand   2 entity tag that must stand, '*' or ''   3 token of this request   4 now (ms)
--       5 random name of this write   6 seq   7 record and details that must stand   8 new record   9 its details
--       10 new body   11 12 tokens less, o200k and cl100k   13 messages with documents less   14 15 tokens of documents less
--       16 words of the new message, for recall   17 its media, as in media.lua
--       18 heads of branches that must stand   19 as in `replace_contents`
-- Gives {'ok', version, etag, then each object in object storage, as in media.lua}, {'moved', version, etag}, {'changed'} when
-- there is another record, a compaction behind it, or there are other branches, or {} when that life has ended
-- include conversation, records, pins, versions, writing, blocks, compactions, media, earlier, summary, branches, contents
local SEALED = 1
local version, life, change, ttl, compactions =
  unpack(redis.call('HMGET', conversation, 'v', 'life', 'change', 'ttl', 'compactions'))
if not version or life ~= ARGV[1] then return {} end
if was_done(ARGV[3]) then return {'ok', version, etag_of(version, life, change)} end
local before = etag_of(version, life, change)
if not stands(ARGV[2], before) then return {'moved', version, before} end
local seq = tonumber(ARGV[6])
local standing = redis.call('LINDEX', details, seq - 1)
if not standing or redis.call('GETRANGE', counts, (seq - 1) * RECORD, seq * RECORD - 1) .. standing ~= ARGV[7] then
  return {'changed'}
end
if newest_compaction(compactions or '') > seq then return {'changed'} end -- it came meanwhile, and may hold the content
if (redis.call('HGET', branches, 'heads') or '') ~= ARGV[18] then return {'changed'} end
local denial = denial_of({'HDEL', 'HINCRBY', 'HRANDFIELD', 'HSET', 'LSET', 'PEXPIRE', 'SETRANGE', 'UNLINK'})
if denial then return denial end

redis.call('SETRANGE', counts, (seq - 1) * RECORD, ARGV[8])
redis.call('LSET', details, seq - 1, ARGV[9])
redis.call('LSET', log, seq - 1, ARGV[10])

local function replace_in(index, value)
  local count, before = indexed(index), seq - 1 - (seq - 1) % BLOCK
  if count < seq then return end
  local values = read_block(index, before / BLOCK, math.min(BLOCK, count - before))
  values[seq - before] = value
  write_block(index, before / BLOCK, values)
end
replace_in(words, ARGV[16])
replace_in(vectors, '')
if has(ARGV[8], RICH) then redis.call('HSET', conversation, 'rich', 1) end
if string.byte(ARGV[10]) == SEALED then redis.call('HSET', conversation, 'sealed', 1) end
redis.call('HDEL', grounding, seq)
redis.call('HDEL', metadata, seq)
release_all(ARGV[17])
replace_contents(ARGV[19], ARGV[5])
if redis.call('HEXISTS', pinned, seq) == 1 then
  redis.call('HSET', pinned, seq, pin_value(ARGV[8], ARGV[9], ARGV[10]))
end
-- Subtracted from 0, because -n would be -0 where n is 0, and Redis 7 does not accept -0 as an integer.
for place, field in ipairs({'t0', 't1', 'gn', 'g0', 'g1'}) do
  redis.call('HINCRBY', conversation, field, 0 - ARGV[10 + place])
end
-- A summary of the message, or a compaction, may hold its content.
local without_summary = forget_summary(seq - 1)
forget_earlier_summaries(seq - 1)
withdraw_compactions(compactions, seq - 1)
redis.call('UNLINK', columns)
local kinds = DID_REDACT + (without_summary and DID_SUMMARIZE or 0)
local etag = write_change(kinds, seq, 0, version + 1, life, ARGV[5], ARGV[4])
redis.call('HSET', conversation, 'edited', ARGV[5])
mark_done(ARGV[3], ARGV[4], ttl)
renew(ttl)
return with_freed({'ok', version + 1, etag})

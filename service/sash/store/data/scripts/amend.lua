#!lua
-- Change what stands beside a message: its pin and its metadata, and whether windows have its tool group.
--
-- ARGV  1 life that must stand   2 entity tag that the arguments below were made for   3 token of this request   4 now (ms)
--       5 random name of this write   6 seq   7 its record now   8 its metadata now, or ''   9 limit of pinned messages
--       10 number of seqs that are in every window now   11 number of those that no longer are   12 newest question, or ''
--       where it stays   13 '1' to leave messages out of windows, '0' to have them in, or ''   14 and on: these three lists of seqs
-- Gives {'ok', version, etag}, {'moved', version, etag}, {'full'} when too many messages would be in every window, or {} when
-- that life has ended
-- include conversation, records, pins, versions, writing
local version, life, change, ttl = unpack(redis.call('HMGET', conversation, 'v', 'life', 'change', 'ttl'))
if not version or life ~= ARGV[1] then return {} end
local etag = etag_of(version, life, change)
if was_done(ARGV[3]) then return {'ok', version, etag} end
if etag ~= ARGV[2] then return {'moved', version, etag} end
local FIRST, seq, count, unpins = 14, tonumber(ARGV[6]), tonumber(ARGV[10]), tonumber(ARGV[11])
local more = 0
for index = FIRST, FIRST + count - 1 do more = more + 1 - redis.call('HEXISTS', pinned, ARGV[index]) end
if more > 0 and redis.call('HLEN', pinned) + more > tonumber(ARGV[9]) then return {'full'} end
local denial = denial_of({'HDEL', 'HLEN', 'HRANDFIELD', 'HSET', 'PEXPIRE', 'SETRANGE'})
if denial then return denial end

redis.call('SETRANGE', counts, (seq - 1) * RECORD, ARGV[7])
if ARGV[8] ~= '' then redis.call('HSET', metadata, seq, ARGV[8]) else redis.call('HDEL', metadata, seq) end
for index = FIRST + count + unpins, #ARGV do
  local at = (ARGV[index] - 1) * RECORD + 3
  local flags = string.byte(redis.call('GETRANGE', counts, at, at))
  flags = flags - flags % (2 * LEFT_OUT) + flags % LEFT_OUT + ARGV[13] * LEFT_OUT
  redis.call('SETRANGE', counts, at, string.char(flags))
end
local function pin(place)
  local record = redis.call('GETRANGE', counts, (place - 1) * RECORD, place * RECORD - 1)
  redis.call('HSET', pinned, place,
    pin_value(record, redis.call('LINDEX', details, place - 1), redis.call('LINDEX', log, place - 1)))
end
for index = FIRST, FIRST + count - 1 do pin(tonumber(ARGV[index])) end
for index = FIRST + count, FIRST + count + unpins - 1 do redis.call('HDEL', pinned, ARGV[index]) end
if redis.call('HEXISTS', pinned, seq) == 1 then pin(seq) end -- its record has changed
if ARGV[12] ~= '' then redis.call('HSET', conversation, 'user', ARGV[12]) end
etag = write_change(DID_AMEND, seq, 0, version + 1, life, ARGV[5], ARGV[4], {'pins', redis.call('HLEN', pinned)})
mark_done(ARGV[3], ARGV[4], ttl)
renew(ttl)
return {'ok', version + 1, etag}

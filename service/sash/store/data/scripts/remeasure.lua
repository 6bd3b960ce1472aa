#!lua
-- Replace the measures of messages, given in ascending order, by newer ones. The messages' text stays as it is.
--
-- ARGV  1 life that must stand   2 random name of this write; then for each message: seq, record and details that must stand,
--       new record, its details, body, documents, metadata (each '' where it stays as it is), tokens more, o200k and cl100k
-- Gives {'ok', messages written, tokens added in o200k, in cl100k}, {'damaged', part}, or {} when that life has ended
--
-- A message whose record or details have changed since it was read is skipped: it was rewritten or redacted meanwhile. A
-- repair is no activity, so it changes neither the conversation's expiry nor its time of change.
-- include conversation, records, writing
local PARTS, SEALED, IN_PROGRESS = 9, 1, 128
local version, life, updated, pins, gn, draft, was_rich =
  unpack(redis.call('HMGET', conversation, 'v', 'life', 'updated', 'pins', 'gn', 'draft', 'rich'))
if not version or (life or '') ~= ARGV[1] then return {} end
local missing = damage(redis.call('LLEN', log), pins, gn)
if missing then return {'damaged', missing} end

local first, last = tonumber(ARGV[3]), tonumber(ARGV[#ARGV - PARTS + 1])
local records = redis.call('GETRANGE', counts, (first - 1) * RECORD, last * RECORD - 1)
local standing = redis.call('LRANGE', details, first - 1, last - 1)
local draft_seq, draft0, draft1 = string.match(draft or '', '^(%d+) (%d+) (%d+)$')
local measured, o200k, cl100k, fields = 0, 0, 0, {'edited', ARGV[2]}
local function note(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
local rich, sealed = was_rich, false
for at = 3, #ARGV, PARTS do
  local seq, was, record, its_details, body, documents, notes, more0, more1 = unpack(ARGV, at, at + PARTS - 1)
  local place = seq - first
  if string.sub(records, place * RECORD + 1, place * RECORD + RECORD) .. (standing[place + 1] or '') == was then
    redis.call('SETRANGE', counts, (seq - 1) * RECORD, record)
    redis.call('LSET', details, seq - 1, its_details)
    if body ~= '' then redis.call('LSET', log, seq - 1, body) end
    if documents ~= '' then redis.call('HSET', grounding, seq, documents) end
    if notes ~= '' then redis.call('HSET', metadata, seq, notes) end
    if redis.call('HEXISTS', pinned, seq) == 1 then
      local its_body = body ~= '' and body or redis.call('LINDEX', log, seq - 1)
      redis.call('HSET', pinned, seq, pin_value(record, its_details, its_body))
    end
    measured, o200k, cl100k = measured + 1, o200k + more0, cl100k + more1
    rich, sealed = richer(rich, record), sealed or string.byte(body) == SEALED
    -- When a draft is replaced, these tokens are subtracted from the totals.
    if seq == draft_seq and string.byte(record, 4) >= IN_PROGRESS then
      note('draft', string.format('%d %d %d', seq, draft0 + more0, draft1 + more1))
    end
  end
end
if measured > 0 then
  redis.call('HINCRBY', conversation, 't0', o200k)
  redis.call('HINCRBY', conversation, 't1', cl100k)
  if rich ~= was_rich then note('rich', rich) end
  if sealed then note('sealed', 1) end
  -- Answers that are kept for retries may hold windows with the older counts.
  redis.call('UNLINK', columns)
  forget_answers(version + 1)
  write_version(version + 1, life, ARGV[2], updated, fields)
end
return {'ok', measured, o200k, cl100k}

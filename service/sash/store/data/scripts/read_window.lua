#!lua flags=no-writes
-- Read the conversation, and a tail of its messages that is likely to be enough for a window.
--
-- ARGV  1 entity tags that the caller has, each with a space on both sides, or ''   2 budget in tokens, 0 when not known
--       3 field of the total: t0 or t1   4 limit of messages, 0 for none   5 1 when scripts (Latin, Cyrillic) are needed
--       6 tokens of a block, in one of which a stable cut is, or 0: the tail then begins with that block, not with the window
--       7 messages to read besides   8 1 when the bodies of the whole tail are needed
-- Gives {} where no conversation is, {'damaged', part}, {'known', etag} when the caller has it; else
--       {'ok', fields of the conversation, length, first seq of the tail, records joined, details joined or '' when no
--        message needs them, {body, …}, documents of the newest user message or '', {seq, record and body, …} of the pinned
--        messages before the tail, {record, details, body} of the newest user message when it is before the tail}
--
-- Bodies are the newest ones of the tail. A body is left out where its text and all later texts are over the budget, unless
-- it or an older message is in every window, or all are asked for. Where they have more than NEAR bytes together, only the FEW newest come, or one:
-- a script copies each value twice more than a plain command does, while all clients wait, so plain commands read the others.
-- Pinned messages before the tail have their bodies up to MOST_BYTES together. Records are one string, read at memory speed.
-- include conversation, records
local ENOUGH, SLACK, NEAR, FEW, MOST_BYTES, MOST_MESSAGES = 64, 1.2, 131072, 8, 4194304, 4000
local fields = redis.call('HMGET', conversation, 'id', 'v', 'life', 'change', 's', 'created', 'updated', 't0', 't1', 'gn', 'g0', 'g1', 'user',
  'summary', 'ttl', 'edited', 'sealed', 'rich', 'pins')
local version, life, change = fields[2], fields[3], fields[4]
local o200k, cl100k, grounded, newest_user, rich, pins = fields[8], fields[9], fields[10], fields[13], fields[18], fields[19]
if not version then
-- include remains
  return left and {'damaged', left} or {}
end
local etag = etag_of(version, life, change)
if ARGV[1] ~= '' and string.find(ARGV[1], ' ' .. etag .. ' ', 1, true) then return {'known', etag} end
local length = redis.call('LLEN', log)
local missing = damage(length, pins, grounded)
if missing then return {'damaged', missing} end

local budget, limit = tonumber(ARGV[2]), tonumber(ARGV[4])
local total = tonumber((ARGV[3] == 't0' and o200k or cl100k) or 0)
local wanted = ENOUGH
if budget > 0 then
  local block, reach = tonumber(ARGV[6]), budget
  if block > 0 then reach = total - math.floor(math.max(0, total - budget) / block) * block end
  wanted = total <= budget and length or math.ceil(reach * length / total * SLACK) + ENOUGH + tonumber(ARGV[7])
end
if limit > 0 and limit < wanted then wanted = limit + 1 end
local first = math.max(1, length - math.min(wanted, MOST_MESSAGES) + 1)

local records = redis.call('GETRANGE', counts, (first - 1) * RECORD, -1)
local beside = ''
if rich == '1' or rich and ARGV[5] == '1' then
  local above = ARGV[5] == '1' and 2 * MIXED or MIXED -- without scripts, only RICH matters
  for at = 1, #records, RECORD do
    if string.byte(records, at) % above >= RICH then
      beside = table.concat(redis.call('LRANGE', details, first - 1, -1))
      break
    end
  end
end
local user = tonumber(newest_user or 0)
local documents, question = '', {}
if user > 0 then
  if tonumber(grounded or 0) > 0 then documents = redis.call('HGET', grounding, user) or '' end
  if user < first then
    question = {
      redis.call('GETRANGE', counts, (user - 1) * RECORD, user * RECORD - 1), redis.call('LINDEX', details, user - 1),
      redis.call('LINDEX', log, user - 1),
    }
  end
end
local before, left, always = {}, MOST_BYTES, user >= first and user or length
for _, pin in ipairs(pins == '0' and {} or redis.call('HKEYS', pinned)) do
  local seq = tonumber(pin)
  if seq < first then
    local value
    if left > 0 then
      value = redis.call('HGET', pinned, pin)
      left = left - #value
    else
      value = pin_value(
        redis.call('GETRANGE', counts, (seq - 1) * RECORD, seq * RECORD - 1), redis.call('LINDEX', details, seq - 1), '')
    end
    before[#before + 1] = pin
    before[#before + 1] = value
  elseif seq < always then
    always = seq
  end
end
local bodies = {}
if length > 0 then
  local is_o200k, unpacked = ARGV[3] == 't0', struct.unpack
  local near, room, newest = NEAR, budget > 0 and ARGV[8] == '0' and budget or math.huge, 0
  for at = #records - RECORD + 5, 1, -RECORD do
    local in_o200k, in_cl100k, size = unpacked('<I4I4I4', records, at)
    near, room = near - size, room - (is_o200k and in_o200k or in_cl100k)
    if room < 0 and length - newest < always and newest > 0 then break end
    if near < 0 then
      newest = math.max(1, math.min(newest, FEW))
      break
    end
    newest = newest + 1
  end
  bodies = redis.call('LRANGE', log, -newest, -1)
end
return {'ok', fields, length, first, records, beside, bodies, documents, before, question}

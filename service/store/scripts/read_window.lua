#!lua flags=no-writes
-- Read what a window is built from: the conversation, and a tail of its messages that is likely to be enough.
--
-- KEYS  conversation, log, counts, details, grounding, pinned
-- ARGV  1 version that the caller has, or ''   2 budget in tokens, 0 when not known   3 field of the total: t0 or t1
--       4 most messages, 0 for no limit   5 '' when the bodies are asked for beside this
-- Gives {} when there is no such conversation; {version} when the caller has it; else
--       {version, fields of the conversation, length, first seq of the tail, records joined, details joined or '' when no
--        message is rich, {body, …}, documents of the newest user message or '', pinned before the tail (seq, record and
--        body, …), newest user message's record, details and body when it is before the tail}
--
-- Bodies are the newest ones of the tail, MOST bytes at most, or one; and of the pinned messages before it, those beyond MOST
-- come without theirs. Few windows need more, and whoever needs more asks for it.
--
-- Records are one string, because that is read at memory speed. Bodies are not joined: that would copy them twice here,
-- where all clients wait.
local ENOUGH, SLACK, RECORD, SIZE, MOST = 64, 1.2, 24, 12, 4194304
local conversation, log, counts, details, grounding, pinned = unpack(KEYS)
local fields = redis.call('HGETALL', conversation)
if #fields == 0 then
  return {}
end
local state = {}
for i = 1, #fields, 2 do state[fields[i]] = fields[i + 1] end
if ARGV[1] ~= '' and ARGV[1] == state.v then
  return {tonumber(state.v)}
end

local length = redis.call('LLEN', log)
local budget, total, most = tonumber(ARGV[2]), tonumber(state[ARGV[3]] or 0), tonumber(ARGV[4])
local wanted = ENOUGH
if budget > 0 then
  wanted = total <= budget and length or math.ceil(budget * length / total * SLACK) + ENOUGH
end
if most > 0 and most < wanted then wanted = most + 1 end
local first = math.max(1, length - wanted + 1)

local records = redis.call('GETRANGE', counts, (first - 1) * RECORD, -1)
local beside = state.rich and table.concat(redis.call('LRANGE', details, first - 1, -1)) or ''
local bodies = {}
if ARGV[5] ~= '' and length > 0 then
  local integer, left, newest, last = struct.unpack, MOST, 0, #records - RECORD + SIZE + 1
  for at = last, SIZE + 1, -RECORD do
    left = left - integer('<I4', records, at)
    if left < 0 and newest > 0 then break end
    newest = newest + 1
  end
  bodies = redis.call('LRANGE', log, -newest, -1)
end
local user = tonumber(state.user or 0)
local documents, question = '', {}
if user > 0 then
  if tonumber(state.gn) > 0 then documents = redis.call('HGET', grounding, user) or '' end
  if user < first then
    question = {
      redis.call('GETRANGE', counts, (user - 1) * RECORD, user * RECORD - 1), redis.call('LINDEX', details, user - 1),
      redis.call('LINDEX', log, user - 1),
    }
  end
end
local before, left = {}, MOST
for _, seq in ipairs(first > 1 and redis.call('HKEYS', pinned) or {}) do
  if tonumber(seq) < first then
    local value
    if left > 0 then
      value = redis.call('HGET', pinned, seq)
      left = left - #value
    else
      local its_details = redis.call('LINDEX', details, seq - 1)
      value = struct.pack('>I4', #its_details) .. redis.call('GETRANGE', counts, (seq - 1) * RECORD, seq * RECORD - 1) .. its_details
    end
    before[#before + 1] = seq
    before[#before + 1] = value
  end
end
return {tonumber(state.v), fields, length, first, records, beside, bodies, documents, before, question}

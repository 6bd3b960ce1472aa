#!lua flags=no-writes
-- Read what a window is built from: the conversation, and a tail of its messages that is likely to be enough.
--
-- KEYS  conversation, log, counts, details, grounding, pinned
-- ARGV  1 version that the caller has, or ''   2 budget in tokens, 0 when not known   3 field of the total: t0 or t1
--       4 most messages, 0 for no limit   5 mark of the history that the caller has messages of, or ''   6 when that was
--         updated   7 8 the first and the last seq of these   9 details of the last
-- Gives {} when there is no such conversation; {version} when the caller has it; else
--       {version, mark, when it was updated, details of the newest message, fields of the conversation, length, first seq of
--        the tail, records joined, details joined or '' when no message is rich, {body, …}, documents of the newest user
--        message or '', pinned before the tail (seq, record and body, …), newest user message's record, details and body
--        when it is before the tail, since}
--
-- A store that lost its newest writes counts the same versions and seqs anew: so what the caller has is told by times, too, and
-- by its last message.
--
-- Where since is not 0, records, details and bodies are of the messages after it: the caller has the others from first on, and
-- nothing changed them. Details that the caller has joined cannot be cut, so with them its tail grows, to twice what is wanted.
--
-- Bodies are the newest ones of the tail: NEAR bytes at most, or one, and none whose text and those of all after it are over the
-- budget, unless it or an older one is of every window. Of the pinned messages before the tail, those beyond MOST come without
-- theirs. What passes through a script is copied once more where all clients wait; so who needs more asks for it by a plain
-- LRANGE, and asks for what the window holds alone. Records are one string, read at memory speed.
local ENOUGH, SLACK, RECORD, TOKENS, NEAR, MOST = 64, 1.2, 24, 4, 131072, 4194304
local conversation, log, counts, details, grounding, pinned = unpack(KEYS)
local fields = redis.call('HGETALL', conversation)
if #fields == 0 then
  return {}
end
local state = {}
for i = 1, #fields, 2 do state[fields[i]] = fields[i + 1] end
local mark = table.concat({state.created, state.edited or '', state.edited_ms or '', state.rich or ''}, ':')
if ARGV[1] == state.v and (ARGV[5] == '' or ARGV[5] == mark and ARGV[6] == state.updated) then
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
local since, had_first, had_last = 0, tonumber(ARGV[7]), tonumber(ARGV[8])
if ARGV[5] == mark and had_first <= first and first <= had_last and redis.call('LINDEX', details, had_last - 1) == ARGV[9] then
  if not state.rich then
    since = had_last
  elseif length - had_first < 2 * wanted then
    first, since = had_first, had_last
  end
end
local from = math.max(first, since + 1)

local records = redis.call('GETRANGE', counts, (from - 1) * RECORD, -1)
local beside = state.rich and table.concat(redis.call('LRANGE', details, from - 1, -1)) or ''
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
local before, left, always = {}, MOST, user >= from and user or length
for _, pin in ipairs(redis.call('HKEYS', pinned)) do
  local seq = tonumber(pin)
  if seq < first then
    local value
    if left > 0 then
      value = redis.call('HGET', pinned, pin)
      left = left - #value
    else
      local its_details = redis.call('LINDEX', details, seq - 1)
      value = struct.pack('>I4', #its_details) .. redis.call('GETRANGE', counts, (seq - 1) * RECORD, seq * RECORD - 1) .. its_details
    end
    before[#before + 1] = pin
    before[#before + 1] = value
  elseif from <= seq and seq < always then
    always = seq
  end
end
local bodies = {}
if from <= length then
  local unpacked, tokens_and_size = struct.unpack, ARGV[3] == 't0' and '<I4xxxxI4' or '<xxxxI4I4'
  local near, room, newest = NEAR, budget > 0 and budget or math.huge, 0
  for at = #records - RECORD + TOKENS + 1, TOKENS + 1, -RECORD do
    local tokens, size = unpacked(tokens_and_size, records, at)
    near, room = near - size, room - tokens
    if newest > 0 and (near < 0 or room < 0 and length - newest < always) then break end
    newest = newest + 1
  end
  bodies = redis.call('LRANGE', log, -newest, -1)
end
return {
  tonumber(state.v), mark, state.updated, redis.call('LINDEX', details, -1) or '', fields, length, first, records, beside, bodies,
  documents, before, question, since,
}

#!lua flags=no-writes
-- Read what a window is built from: the conversation, and a tail of its messages that is likely to be enough.
--
-- KEYS  conversation, log, counts, grounding, pinned
-- ARGV  1 version that the caller has, or ''   2 budget in tokens, 0 when not known   3 field of the total: t0 or t1
--       4 most messages, 0 for no limit
-- Gives {} when there is no such conversation; {version} when the caller has it; else
--       {version, fields of the conversation, length, first seq of the tail, records joined, bodies joined with commas,
--        documents of the newest user message or '', pinned before the tail (seq, record and body, …),
--        newest user message's record and body when it is before the tail}
--
-- Joined strings, because one long reply is parsed at memory speed and a thousand short ones are not.
local ENOUGH, SLACK = 64, 1.2
local conversation, log, counts, grounding, pinned = unpack(KEYS)
local fields = redis.call('HGETALL', conversation)
if #fields == 0 then
  return {}
end
local state = {}
for i = 1, #fields, 2 do state[fields[i]] = fields[i + 1] end
if ARGV[1] ~= '' and ARGV[1] == state.v then
  return {tonumber(state.v)}
end

local length = redis.call('LLEN', counts)
local budget, total, most = tonumber(ARGV[2]), tonumber(state[ARGV[3]] or 0), tonumber(ARGV[4])
local wanted = ENOUGH
if budget > 0 then
  wanted = total <= budget and length or math.ceil(budget * length / total * SLACK) + ENOUGH
end
if most > 0 and most < wanted then wanted = most + 1 end
local first = math.max(1, length - wanted + 1)

local records = redis.call('LRANGE', counts, first - 1, -1)
local bodies = redis.call('LRANGE', log, first - 1, -1)
local user = tonumber(state.user or 0)
local documents, question = '', {}
if user > 0 then
  documents = redis.call('HGET', grounding, user) or ''
  if user < first then
    question = {redis.call('LINDEX', counts, user - 1), redis.call('LINDEX', log, user - 1)}
  end
end
local before = {}
if first > 1 then
  local all = redis.call('HGETALL', pinned)
  for i = 1, #all, 2 do
    if tonumber(all[i]) < first then
      before[#before + 1] = all[i]
      before[#before + 1] = all[i + 1]
    end
  end
end
return {tonumber(state.v), fields, length, first, table.concat(records), table.concat(bodies, ','), documents, before, question}

#!lua
-- Put messages at the end of a conversation that is being built and that nobody sees yet.
--
-- KEYS  staged log, counts, details, ids, grounding, metadata, pinned
-- ARGV  1 messages that must be there already   2 how long to keep what is staged (ms)   3 number of messages, then
--       6 for each: id, record, details, body, grounding or '', metadata or ''; then seq, record, details and body of each
--       message that is in every window
-- Gives {'ok'}, {'twice', index} for an id that was staged before, or {'lost'} when what was staged has expired
local FIELDS = 6
local log, counts, details, ids, grounding, metadata, pinned = unpack(KEYS)
local before, number = tonumber(ARGV[1]), tonumber(ARGV[3])
local length = redis.call('LLEN', log)
if length == before + number then return {'ok'} end -- asked again, because the first reply was lost
if length ~= before then return {'lost'} end
local fresh = {}
for index = 1, number do
  local id = ARGV[3 + (index - 1) * FIELDS + 1]
  if fresh[id] or redis.call('HEXISTS', ids, id) == 1 then return {'twice', index - 1} end
  fresh[id] = true
end
for index = 1, number do
  local at = 3 + (index - 1) * FIELDS
  local seq = before + index
  redis.call('HSET', ids, ARGV[at + 1], seq)
  redis.call('APPEND', counts, ARGV[at + 2])
  redis.call('RPUSH', details, ARGV[at + 3])
  redis.call('RPUSH', log, ARGV[at + 4])
  if ARGV[at + 5] ~= '' then redis.call('HSET', grounding, seq, ARGV[at + 5]) end
  if ARGV[at + 6] ~= '' then redis.call('HSET', metadata, seq, ARGV[at + 6]) end
end
for at = 4 + number * FIELDS, #ARGV, 4 do
  local record, its_details, body = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  redis.call('HSET', pinned, ARGV[at], struct.pack('>I4', #its_details) .. record .. its_details .. body)
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[2]) end
return {'ok'}

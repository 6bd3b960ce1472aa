#!lua flags=no-writes
-- Read what tells a conversation's changes: its state, and the messages that were likely added since.
--
-- ARGV  1 first seq to read   2 limit of messages
-- Gives {} where no conversation is, {'damaged', part}, or {'ok', tenant/conversation, version, life, change, edited or false,
--       updated (ms), changes or false, length, records joined, {details, …}}
-- include conversation, damage
local name, version, life, change, edited, updated, changes =
  unpack(redis.call('HMGET', conversation, 'id', 'v', 'life', 'change', 'edited', 'updated', 'changes'))
if not name then
-- include remains
  return left and {'damaged', left} or {}
end
local length, first = redis.call('LLEN', log), tonumber(ARGV[1])
local missing = damage(length)
if missing then return {'damaged', missing} end
local last = math.min(length, first + ARGV[2] - 1)
local records = first <= last and redis.call('GETRANGE', counts, (first - 1) * RECORD, last * RECORD - 1) or ''
return {
  'ok', name, version, life, change, edited, updated, changes, length, records,
  first <= last and redis.call('LRANGE', details, first - 1, last - 1) or {},
}

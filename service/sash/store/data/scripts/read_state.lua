#!lua flags=no-writes
-- Read a conversation without its messages. One script, because between plain commands another client's write may come.
--
-- ARGV  fields of the conversation
-- Gives {} where no conversation is, {'damaged', part}, or {'ok', {value of each field}, length, when it expires (ms) or less
--       than 0}
-- include conversation
local fields = redis.call('HMGET', conversation, unpack(ARGV))
if not fields[1] then
-- include remains
  return left and {'damaged', left} or {}
end
local length = redis.call('LLEN', log)
local missing = damage(length)
if missing then return {'damaged', missing} end
return {'ok', fields, length, redis.call('PEXPIRETIME', conversation)}

#!lua flags=no-writes
-- Read a conversation without its messages. One script, because between plain commands another client's write may come.
--
-- Gives {} where no conversation is, {'damaged', part}, or {'ok', fields as for a window, with agents, created and updated,
--       length, when it expires (ms) or less than 0}
-- include conversation, fields
local fields = read_fields('g0', 'g1', 'summary', 'agents', 'created', 'updated')
if not fields[1] then
-- include remains
  return left and {'damaged', left} or {}
end
local length = redis.call('LLEN', log)
local missing = damage(length)
if missing then return {'damaged', missing} end
if fields[2] then fields[4] = etag_of(fields[2], fields[3], fields[4]) end
return {'ok', fields, length, redis.call('PEXPIRETIME', conversation)}

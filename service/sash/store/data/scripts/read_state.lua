#!lua flags=no-writes
-- Read a conversation without its messages. One script, because between plain commands another client's write may come.
--
-- Gives {} where no conversation is, {'damaged', part}, or {'ok', when it expires (ms) or less than 0, created, updated,
--       settings} and the state without messages (state.lua), which has agents, too
-- include conversation, damage, fields, state
local fields = read_fields('summary', 'agents', 'created', 'updated')
if not fields[1] then
-- include remains
  return left and {'damaged', left} or {}
end
local length = redis.call('LLEN', log)
local missing = damage(length)
if missing then return {'damaged', missing} end
local told = {'ok', redis.call('PEXPIRETIME', conversation), fields[17], fields[18], fields[5]}
fields[4] = fields[2] and etag_of(fields[2], fields[3], fields[4])
return tell_state(told, fields[16] and {'agents', fields[16]} or {}, fields, length, '', {})

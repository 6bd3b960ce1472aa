#!lua flags=no-writes
-- Read branches.
--
-- KEYS  all of the conversation's
-- ARGV  1 '*' for the contents of all, 'first' for the details of the first message of each that hangs in the log, or 'heads'
--       for neither
-- Gives {} where no conversation is, {'damaged', part}, or {'ok', tenant/conversation, version, life, change, edited or '', length,
--       heads or '', {what was asked for or false, …}, {details or false of the message behind which each branch hangs in the log, …}}; both
--       in the order of the heads
-- include conversation, damage
local name, version, life, change, edited = unpack(redis.call('HMGET', conversation, 'id', 'v', 'life', 'change', 'edited'))
if not name then
-- include remains
  return left and {'damaged', left} or {}
end
local length = redis.call('LLEN', log)
local missing = damage(length)
if missing then return {'damaged', missing} end
local heads, contents, before = redis.call('HGET', branches, 'heads') or '', {}, {}
for at = 13, #heads, 28 do
  local number, parent, after = struct.unpack('<I4I4I4', heads, at)
  if ARGV[1] == '*' then
    contents[#contents + 1] = redis.call('HGET', branches, number)
    before[#before + 1] = parent == 0 and after > 0 and redis.call('LINDEX', details, after - 1) or false
  elseif ARGV[1] == 'first' and parent == 0 then
    local content = redis.call('HGET', branches, number)
    local message = 5 + struct.unpack('<I4', content) -- behind the media: four sizes, a record, details
    local first = message + 16 + RECORD
    contents[#contents + 1] = string.sub(content, first, first + struct.unpack('<I4', content, message) - 1)
  elseif ARGV[1] == 'first' then
    contents[#contents + 1] = false
  end
end
return {'ok', name, version, life, change, edited or '', length, heads, contents, before}

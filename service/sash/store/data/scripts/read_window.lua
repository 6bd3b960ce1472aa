#!lua flags=no-writes
-- Read the conversation, and a tail of its messages that is likely to be enough for a window.
--
-- ARGV  1 entity tags that the caller has, each with a space on both sides, or ''   2 what is wanted (tail.lua)
-- Gives {} where no conversation is, {'damaged', part}, {'known', etag} when the caller has it, or {'ok', settings} and the tail
-- include conversation, fields, state, tail
local fields = read_fields('summary')
if not fields[2] then
-- include remains
  return left and {'damaged', left} or {}
end
fields[4] = etag_of(fields[2], fields[3], fields[4])
if ARGV[1] ~= '' and string.find(ARGV[1], ' ' .. fields[4] .. ' ', 1, true) then return {'known', fields[4]} end
local told = read_tail({'ok', fields[5]}, fields, redis.call('LLEN', details), 0, ARGV[2])
if told then return told end
-- include damage
return {'damaged', damage(redis.call('LLEN', log), fields[13], fields[8])}

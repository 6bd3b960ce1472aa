#!lua flags=no-writes
-- Read the conversation, and a tail of its messages that is likely to be enough for a window.
--
-- ARGV  1 entity tags that the caller has, each with a space on both sides, or ''   2 msgpack: what is wanted (tail.lua)
-- Gives {} where no conversation is, {'damaged', part}, {'known', etag} when the caller has it, or the tail
-- include conversation, fields, pins, tail
local fields = read_fields('g0', 'g1', 'summary')
local version = fields[2]
if not version then
-- include remains
  return left and {'damaged', left} or {}
end
local etag = etag_of(version, fields[3], fields[4])
if ARGV[1] ~= '' and string.find(ARGV[1], ' ' .. etag .. ' ', 1, true) then return {'known', etag} end
local length = redis.call('LLEN', log)
local missing = damage(length, fields[13], fields[8])
if missing then return {'damaged', missing} end
fields[4] = etag
return read_tail(fields, length, unpack(cmsgpack.unpack(ARGV[2])))

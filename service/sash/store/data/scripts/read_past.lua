#!lua flags=no-writes
-- Read the conversation and the tail that a window of an earlier state likely needs: of the log as long as it was then.
--
-- ARGV  1 length then   2 3 tokens then, o200k and cl100k   4 messages with documents then   5 6 their tokens   7 newest user
--       message then, or 0   8 msgpack: what is wanted (tail.lua)
-- Gives {} where no conversation is, {'damaged', part}, or {'ok', length now, {changes, change_times, settings_before,
--       summaries_before}, the tail with these figures in the place of those of now}
-- include conversation, fields, pins, tail, compactions
local fields = read_fields('g0', 'g1', 'summary', 'changes', 'change_times', 'settings_before', 'summaries_before')
if not fields[2] then
-- include remains
  return left and {'damaged', left} or {}
end
local length = redis.call('LLEN', log)
local missing = damage(length, fields[13], fields[8])
if missing then return {'damaged', missing} end
local own, keep = {unpack(fields, 18, 21)}, math.min(length, tonumber(ARGV[1]))
for place = 18, 21 do fields[place] = nil end
fields[4] = etag_of(fields[2], fields[3], fields[4])
fields[6], fields[7], fields[8], fields[15], fields[16], fields[9] = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
fields[14] = compactions_at(fields[14], keep)
if fields[14] == '' then fields[14] = false end
if keep == 0 then return {'ok', length, own, {'ok', fields, 0, 1, '', '', {}, '', {}, {}, {}, {}}} end -- a range has no empty end
return {'ok', length, own, read_tail(fields, keep, unpack(cmsgpack.unpack(ARGV[8])))}

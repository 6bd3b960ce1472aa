#!lua flags=no-writes
-- Read the conversation and the tail that a window of an earlier state likely needs: of the log as long as it was then.
--
-- ARGV  1 length then   2 3 tokens then, o200k and cl100k   4 messages with documents then   5 6 their tokens   7 newest user
--       message then, or 0   8 what is wanted (tail.lua)
-- Gives {} where no conversation is, {'damaged', part}, or {'ok', length now, {changes, change_times, settings_before,
--       summaries_before}, settings} and the tail with these figures in the place of those of now
-- include conversation, damage, fields, state, tail, compactions
local fields = read_fields('summary', 'changes', 'change_times', 'settings_before', 'summaries_before')
if not fields[2] then
-- include remains
  return left and {'damaged', left} or {}
end
local length = redis.call('LLEN', log)
local missing = damage(length, fields[13], fields[8])
if missing then return {'damaged', missing} end
local told, keep = {'ok', length, {unpack(fields, 16, 19)}, fields[5]}, math.min(length, tonumber(ARGV[1]))
fields[4] = etag_of(fields[2], fields[3], fields[4])
fields[6], fields[7], fields[8], fields.grounding_tokens, fields[9] = ARGV[2], ARGV[3], ARGV[4], {ARGV[5], ARGV[6]}, ARGV[7]
fields[14] = compactions_at(fields[14], keep)
if keep == 0 then return tell_state(told, {}, fields, 0, '', {}) end -- a range has no empty end
return read_tail(told, fields, keep, keep, ARGV[8])

#!lua flags=allow-oom
-- Drop entry ids that a rewind left behind.
--
-- ARGV  1 life that must stand; then the id's field and the seq of each entry that was forgotten
-- An id that is used again, or whose place is taken, stays: the append script checks such ids itself.
-- Gives 1, or 0 when that life has ended
-- include conversation
if redis.call('HGET', conversation, 'life') ~= ARGV[1] then return 0 end
local length = redis.call('LLEN', log)
for index = 2, #ARGV, 2 do
  if tonumber(ARGV[index + 1]) > length and redis.call('HGET', ids, ARGV[index]) == ARGV[index + 1] then
    redis.call('HDEL', ids, ARGV[index])
  end
end
return 1

#!lua flags=allow-oom
-- Drop entry ids that a rewind left behind.
--
-- KEYS  log, ids
-- ARGV  id and seq of each entry that was forgotten
-- An id that has been used again since, or whose place is taken, stays: an append looks closer than this does.
local length = redis.call('LLEN', KEYS[1])
for index = 1, #ARGV, 2 do
  if tonumber(ARGV[index + 1]) > length and redis.call('HGET', KEYS[2], ARGV[index]) == ARGV[index + 1] then
    redis.call('HDEL', KEYS[2], ARGV[index])
  end
end
return 1

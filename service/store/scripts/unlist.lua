#!lua flags=allow-oom
-- Take a conversation off an owner's list, when nothing has touched its line since it was read.
--
-- KEYS  owner's list
-- ARGV  id and score of each
-- Gives how many are gone
local gone = 0
for index = 1, #ARGV, 2 do
  if redis.call('ZSCORE', KEYS[1], ARGV[index]) == ARGV[index + 1] then
    gone = gone + redis.call('ZREM', KEYS[1], ARGV[index])
  end
end
return gone

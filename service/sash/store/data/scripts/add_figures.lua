#!lua
-- Add one worker's figures to the deployment's statistics, once.
-- KEYS  1 the minute's hash  2 the hour's  3 the day's  4 that of all time
-- ARGV  1 worker  2 the number of its addition  3 now, milliseconds  4-7 milliseconds that each key is kept
--       8… path, number to add, path, …
-- A repeated addition is found by its number in the minute's hash.
local seen = '=' .. ARGV[1]
if tonumber(redis.call('HGET', KEYS[1], seen) or 0) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], seen, ARGV[2])
redis.call('HSETNX', KEYS[4], '=started', ARGV[3])
for place, key in ipairs(KEYS) do
  for i = 8, #ARGV, 2 do
    redis.call('HINCRBY', key, ARGV[i], ARGV[i + 1])
  end
  redis.call('PEXPIRE', key, ARGV[3 + place])
end
return 1

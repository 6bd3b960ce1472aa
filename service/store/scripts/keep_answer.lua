#!lua
-- Keep the answer of a request beside the conversation that it speaks of, so that it goes when that goes.
--
-- KEYS  conversation, answers
-- ARGV  1 token of the request   2 now (ms), 13 digits   3 answer   4 how long to keep it (ms)
-- Gives 1, or 0 when there is no such conversation any more
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. ARGV[3])
-- Fields cannot expire on every server that we run on: each new one drops a few old ones instead.
local old = tonumber(ARGV[2]) - tonumber(ARGV[4])
local some = redis.call('HRANDFIELD', KEYS[2], 4, 'WITHVALUES')
for index = 1, #some, 2 do
  if tonumber(string.sub(some[index + 1], 1, 13)) < old then redis.call('HDEL', KEYS[2], some[index]) end
end
local left = redis.call('PTTL', KEYS[1])
if left < 0 or left > tonumber(ARGV[4]) then left = tonumber(ARGV[4]) end
redis.call('PEXPIRE', KEYS[2], math.max(left, 1))
return 1

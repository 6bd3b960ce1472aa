#!lua
-- Keep the answer to a request beside its conversation, so that both are erased together.
--
-- ARGV  1 life of the conversation   2 token of the request   3 now (ms), 13 digits   4 answer
--       5 how long to keep it (ms)   6 version of the conversation that the answer shows
-- Gives 1, or 0 when that life has ended, or something that the answer may show was taken away since
-- include conversation
local life, version, forgot = unpack(redis.call('HMGET', conversation, 'life', 'v', 'forgot'))
if life ~= ARGV[1] or tonumber(version) < tonumber(ARGV[6]) or tonumber(forgot or 0) > tonumber(ARGV[6]) then return 0 end
redis.call('HSET', answers, ARGV[2], ARGV[3] .. ARGV[4])
-- Not every server can expire fields, so each new field drops a few old ones.
local old = tonumber(ARGV[3]) - tonumber(ARGV[5])
local some = redis.call('HRANDFIELD', answers, 4, 'WITHVALUES')
for index = 1, #some, 2 do
  if tonumber(string.sub(some[index + 1], 1, 13)) < old then redis.call('HDEL', answers, some[index]) end
end
local left = redis.call('PTTL', conversation)
if left < 0 or left > tonumber(ARGV[5]) then left = tonumber(ARGV[5]) end
redis.call('PEXPIRE', answers, math.max(left, 1))
return 1

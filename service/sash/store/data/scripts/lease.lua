#!lua
-- Take or return the right to summarise a conversation. It is a field of the conversation, so both are erased together.
--
-- KEYS  conversation
-- ARGV  1 name of the holder   2 now (ms)   3 until when (ms), 0 to give it back
-- Gives 0 when another holder has it, or there is no conversation; else 1
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local holder, till = string.match(redis.call('HGET', KEYS[1], 'summarizer') or '', '^(%S+) (%d+)$')
if holder and holder ~= ARGV[1] and tonumber(till) > tonumber(ARGV[2]) then return 0 end
if ARGV[3] ~= '0' then
  redis.call('HSET', KEYS[1], 'summarizer', ARGV[1] .. ' ' .. ARGV[3])
elseif holder == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'summarizer')
end
return 1

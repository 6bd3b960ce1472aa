#!lua
-- Keep counts of messages in a vendor's vocabulary, and the name of the history that was counted.
--
-- ARGV  1 life that must stand   2 name of the last write that was not an append, or ''   3 and on: fields and their values
-- Gives 1, or 0 when that history is gone
-- include conversation
local version, life, edited = unpack(redis.call('HMGET', conversation, 'v', 'life', 'edited'))
if not version or life ~= ARGV[1] or (edited or '') ~= ARGV[2] then return 0 end
local made = ARGV[1] .. ' ' .. ARGV[2]
if redis.call('HGET', columns, 'made') ~= made then redis.call('UNLINK', columns) end
redis.call('HSET', columns, 'made', made, unpack(ARGV, 3))
local left = redis.call('PTTL', conversation)
if left > 0 then redis.call('PEXPIRE', columns, left) end
return 1

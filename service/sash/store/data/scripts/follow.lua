#!lua flags=allow-oom
-- Have each change of a conversation published, until a time.
--
-- KEYS  conversation
-- ARGV  1 until when (ms)
-- Gives 0 when there is no conversation, else 1
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local followed = tonumber(redis.call('HGET', KEYS[1], 'followed') or 0)
if followed < tonumber(ARGV[1]) then redis.call('HSET', KEYS[1], 'followed', ARGV[1]) end
return 1

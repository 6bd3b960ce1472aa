#!lua flags=allow-oom
-- Take the work that has been due longest, for a while: nobody else takes it until then.
--
-- KEYS  work -> when it is due (ms)
-- ARGV  1 now (ms)   2 until when it is taken (ms)
-- Gives the name of the work, or none
local due = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, 1)
if due[1] then redis.call('ZADD', KEYS[1], ARGV[2], due[1]) end
return due

#!lua flags=allow-oom
-- Note the progress of a run of a request: hold its key longer, release it, or note that it is done.
--
-- KEYS  claim
-- ARGV  1 name of the run   2 until when it holds the key (ms), 0 to let it go   3 and on: fields, and their values
-- A run that lost its key to another changes nothing.
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'until', unpack(ARGV, 2))
return 1

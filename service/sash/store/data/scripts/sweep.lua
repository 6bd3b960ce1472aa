#!lua flags=allow-oom
-- Drop some of the documents and metadata that a long rewind left behind.
--
-- ARGV  1 life that must stand
-- Gives the last seq that may have some left, or 0
-- include conversation, versions, writing
local life, stale = unpack(redis.call('HMGET', conversation, 'life', 'stale'))
if not stale or life ~= ARGV[1] then return 0 end
return sweep(redis.call('LLEN', log), tonumber(stale))

#!lua
-- Note how far the store is, and that it went back where it was further before.
--
-- KEYS  mark
-- ARGV  1 now (ms)   2 the furthest that the caller knows of this store
-- Gives how far it is now; when it went back, from where, to where (0 where it never did)
local key, known = KEYS[1], tonumber(ARGV[2])
local was = tonumber(redis.call('HGET', key, 'time') or 0)
if was < known then redis.call('HSET', key, 'at', ARGV[1], 'from', ARGV[2], 'to', string.format('%d', was)) end
local now = math.max(tonumber(ARGV[1]), was + 1)
redis.call('HSET', key, 'time', string.format('%d', now))
local at, from, to = unpack(redis.call('HMGET', key, 'at', 'from', 'to'))
return {now, at or 0, from or 0, to or 0}

#!lua flags=allow-oom
-- Take requests from a tenant's or a key's bucket, which fills at a steady rate.
--
-- KEYS  bucket
-- ARGV  1 rate (requests a second)   2 most that the bucket holds   3 requests wanted
-- Gives {requests granted, milliseconds until there is one more}
--
-- The server's clock is used, so that all replicas of the service have one clock for a bucket.
local rate, most, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local state = redis.call('HMGET', KEYS[1], 'left', 'at')
local left, at = tonumber(state[1] or most), tonumber(state[2] or now)
left = math.min(most, left + math.max(0, now - at) * rate / 1000)
local granted = math.min(wanted, math.floor(left))
left = left - granted
redis.call('HSET', KEYS[1], 'left', string.format('%.6f', left), 'at', string.format('%d', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(most / rate * 1000) + 1000)
return {granted, math.max(0, math.ceil((1 - left) * 1000 / rate))}

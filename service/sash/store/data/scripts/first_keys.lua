#!lua
-- Give a tenant its first keys, unless another process just did.
--
-- KEYS  the tenant's keys
-- ARGV  names and wrapped keys
-- Gives 1, or 0 when it has keys
if redis.call('HLEN', KEYS[1]) > 0 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1

#!lua flags=allow-oom
-- Bind a request under an idempotency key to the life that its first run found.
--
-- KEYS  claim
-- ARGV  1 life that this run found
-- Gives the life that the first run found
redis.call('HSETNX', KEYS[1], 'life', ARGV[1])
return redis.call('HGET', KEYS[1], 'life')

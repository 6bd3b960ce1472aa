#!lua flags=no-writes
-- Read messages first to last, for a window that the first tail was too short for.
--
-- KEYS  conversation, log, counts
-- ARGV  1 first seq   2 last seq
-- Gives {{created, edited}, number of messages, records joined, bodies joined with commas}; the first two tell whether
--       this is still the history that the tail is of
local records = redis.call('LRANGE', KEYS[3], ARGV[1] - 1, ARGV[2] - 1)
local bodies = redis.call('LRANGE', KEYS[2], ARGV[1] - 1, ARGV[2] - 1)
local history = redis.call('HMGET', KEYS[1], 'created', 'edited')
return {history, #records, table.concat(records), table.concat(bodies, ',')}

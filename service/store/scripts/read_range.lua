#!lua flags=no-writes
-- Read messages first to last, for a window that the first tail was too short for.
--
-- KEYS  log, counts
-- ARGV  1 first seq   2 last seq
-- Gives {number of messages, records joined, bodies joined with commas}
local records = redis.call('LRANGE', KEYS[2], ARGV[1] - 1, ARGV[2] - 1)
local bodies = redis.call('LRANGE', KEYS[1], ARGV[1] - 1, ARGV[2] - 1)
return {#records, table.concat(records), table.concat(bodies, ',')}

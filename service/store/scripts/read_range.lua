#!lua flags=no-writes
-- Read messages first to last, for a window that the first tail was too short for.
--
-- KEYS  conversation, log, counts, details
-- ARGV  1 first seq   2 last seq
-- Gives {{created, edited}, records joined, details joined or '' when no message is rich, {body, …}}; the first two tell
--       whether this is still the history that the tail is of
local RECORD = 24
local history = redis.call('HMGET', KEYS[1], 'created', 'edited', 'rich')
local records = redis.call('GETRANGE', KEYS[3], (ARGV[1] - 1) * RECORD, ARGV[2] * RECORD - 1)
local details = history[3] and table.concat(redis.call('LRANGE', KEYS[4], ARGV[1] - 1, ARGV[2] - 1)) or ''
local bodies = redis.call('LRANGE', KEYS[2], ARGV[1] - 1, ARGV[2] - 1)
return {{history[1], history[2]}, records, details, bodies}

#!lua flags=allow-oom
-- Forget a conversation: every key of it.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned, answers, done
-- ARGV  1 version that must stand, '*' for any, or ''
-- Gives {'ok', version}, {'moved', version} or {}
local version = redis.call('HGET', KEYS[1], 'v')
if not version then return {} end
if ARGV[1] ~= '' and ARGV[1] ~= '*' and ARGV[1] ~= version then return {'moved', version} end
redis.call('UNLINK', unpack(KEYS))
return {'ok', version}

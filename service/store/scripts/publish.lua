#!lua
-- Give a conversation that was staged its name, all at once.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned, then staged log, counts, details, ids,
--       grounding, metadata, pinned; answers, done
-- ARGV  1 token of this request   2 messages that must be staged   3 ttl (ms) or ''   4 and on: fields and values of the
--       conversation
-- Gives {'ok'}, {'exists'}, or {'lost'} when what was staged has expired
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {redis.call('HGET', KEYS[1], 'token') == ARGV[1] and 'ok' or 'exists'}
end
if redis.call('LLEN', KEYS[9]) ~= tonumber(ARGV[2]) then return {'lost'} end
redis.call('UNLINK', KEYS[16], KEYS[17])
for index = 2, 8 do
  redis.call('DEL', KEYS[index])
  if redis.call('EXISTS', KEYS[index + 7]) == 1 then
    redis.call('RENAME', KEYS[index + 7], KEYS[index])
    redis.call('PERSIST', KEYS[index])
  end
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], unpack(ARGV, 4))
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'ttl', ARGV[3])
  for index = 1, 8 do redis.call('PEXPIRE', KEYS[index], ARGV[3]) end
end
return {'ok'}

#!lua
-- Create a conversation without messages.
--
-- KEYS  conversation, answers, done
-- ARGV  1 tenant/conversation   2 settings   3 now (ms)   4 ttl (ms) or ''   5 token of this request
--       6 owner, or '' when there is none or the settings are readable
-- Gives 1, or 0 when the conversation exists and was not made by this very request
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('HGET', KEYS[1], 'token') == ARGV[5] and 1 or 0
end
redis.call('UNLINK', KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'id', ARGV[1], 's', ARGV[2], 'created', ARGV[3], 'updated', ARGV[3], 'v', 1, 'token', ARGV[5])
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'owner', ARGV[6]) end
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], 'ttl', ARGV[4])
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
return 1

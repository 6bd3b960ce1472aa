#!lua
-- Put a conversation on an owner's list, and keep the list at least as long as the conversation.
--
-- KEYS  owner's list
-- ARGV  1 score   2 id   3 how long the list is kept at least (ms), or '' for ever   4 how many of the oldest lines to give
-- Gives the oldest lines: id and score of each
local new = redis.call('EXISTS', KEYS[1]) == 0
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
if ARGV[3] == '' then
  redis.call('PERSIST', KEYS[1])
elseif new then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[3], 'GT') -- a list that is kept for ever stays so
end
redis.pcall('SPUBLISH', KEYS[1], '+' .. ARGV[2]) -- for those who follow the owner; it is made, or changes hands, after that
return redis.call('ZRANGE', KEYS[1], 0, ARGV[4] - 1, 'WITHSCORES')

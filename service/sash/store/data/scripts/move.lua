#!lua
-- Move a conversation up on its owner's list, and keep the list at least as long as the conversation.
--
-- KEYS  owner's list
-- ARGV  1 score   2 id   3 how long the list is kept at least (ms), or '' for ever
-- Gives 1, or 0 when the conversation has no line
redis.call('ZADD', KEYS[1], 'XX', 'GT', ARGV[1], ARGV[2])
if ARGV[3] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[3], 'GT') end
redis.pcall('SPUBLISH', KEYS[1], ARGV[2]) -- for those who follow the owner
return redis.call('ZSCORE', KEYS[1], ARGV[2]) and 1 or 0

#!lua flags=allow-oom
-- Remove a conversation from an owner's list, if its line is unchanged since it was read.
--
-- KEYS  owner's list
-- ARGV  id and score of each; a '~' after the score also accepts the odd score of a hint that came since
-- Gives how many were removed
local gone = 0
for index = 1, #ARGV, 2 do
  local known, late = string.match(ARGV[index + 1], '^(.-)(~?)$')
  local score = redis.call('ZSCORE', KEYS[1], ARGV[index])
  if score and (score == known or (late == '~' and tonumber(score) % 2 == 1)) then
    gone = gone + redis.call('ZREM', KEYS[1], ARGV[index])
    redis.pcall('SPUBLISH', KEYS[1], ARGV[index]) -- for those who follow the owner
  end
end
return gone

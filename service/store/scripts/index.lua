#!lua
-- Write at the end of the list of words or vectors. Nothing is written when more than appends changed the conversation
-- since the messages were read, or when other messages have taken their places: a store that lost its newest writes may
-- have been given others since.
--
-- ARGV  1 life   2 value of 'edited', or ''; both must be unchanged   3 'words' or 'vectors'   4 length that the list must
--       have   5 model of the vectors, '' for words   6 digests of the messages' entries, joined
--       7 and on: the value of each message
-- Gives {length of the list, length of the log}, {} when something has changed
--
-- Vectors of another model are dropped first, and the list begins again.
-- include conversation.lua
local life, edited, model, ttl = unpack(redis.call('HMGET', conversation, 'life', 'edited', 'embedded', 'ttl'))
if (life or '') ~= ARGV[1] or (edited or '') ~= ARGV[2] then return {} end
local list = ARGV[3] == 'words' and words or vectors
if list == vectors and model ~= ARGV[5] then
  redis.call('UNLINK', vectors)
  redis.call('HSET', conversation, 'embedded', ARGV[5])
end
local from, length, written = tonumber(ARGV[4]), redis.call('LLEN', log), ARGV[4] + #ARGV - 6
if redis.call('LLEN', list) ~= from or written > length then return {} end
for place, standing in ipairs(redis.call('LRANGE', details, from, written - 1)) do
  if string.sub(standing, 4, 19) ~= string.sub(ARGV[6], place * 16 - 15, place * 16) then return {} end
end
for first = 7, #ARGV, CHUNK do
  redis.call('RPUSH', list, unpack(ARGV, first, math.min(first + CHUNK - 1, #ARGV)))
end
-- The list expires with the other keys.
if ttl then redis.call('PEXPIRE', list, math.max(1, redis.call('PTTL', conversation))) end
return {written, length}

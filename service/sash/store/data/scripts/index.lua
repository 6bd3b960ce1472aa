#!lua
-- Write at the end of the index of words or vectors. Nothing is written when another change than an append was made since
-- the messages were read, or when other messages are in their places: a store that lost its newest writes may have got
-- others since.
--
-- ARGV  1 life   2 value of 'edited', or ''; both must be unchanged   3 'words' or 'vectors'   4 messages that the index must
--       have   5 model of the vectors, '' for words   6 digests of the messages' entries, joined
--       7 and on: the value of each message
-- Gives {messages in the index, length of the log}, {} when something has changed
--
-- Vectors of another model are dropped first, and the index begins again.
-- include conversation, blocks
local life, edited, model, ttl = unpack(redis.call('HMGET', conversation, 'life', 'edited', 'embedded', 'ttl'))
if life ~= ARGV[1] or (edited or '') ~= ARGV[2] then return {} end
local blocks = ARGV[3] == 'words' and words or vectors
if blocks == vectors and model ~= ARGV[5] then
  redis.call('UNLINK', vectors)
  redis.call('HSET', conversation, 'embedded', ARGV[5])
end
local from, length, written = tonumber(ARGV[4]), redis.call('LLEN', log), ARGV[4] + #ARGV - 6
if indexed(blocks) ~= from or written > length then return {} end
for place, standing in ipairs(redis.call('LRANGE', details, from, written - 1)) do
  if string.sub(standing, 4, 11) ~= string.sub(ARGV[6], place * 8 - 7, place * 8) then return {} end
end
for block = math.floor(from / BLOCK), math.floor((written - 1) / BLOCK) do
  local before = block * BLOCK
  local values = before < from and read_block(blocks, block, from - before) or {}
  for seq = before + #values + 1, math.min(before + BLOCK, written) do values[#values + 1] = ARGV[6 + seq - from] end
  write_block(blocks, block, values)
end
redis.call('HSET', blocks, 'n', written)
-- The index expires with the other keys.
if ttl then redis.call('PEXPIRE', blocks, math.max(1, redis.call('PTTL', conversation))) end
return {written, length}

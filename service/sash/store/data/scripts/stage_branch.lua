#!lua
-- Put a branch beside the staged messages of a conversation, whose number is the next one.
--
-- KEYS  the conversation's keys as staged
-- ARGV  1 parent   2 seq after which it hangs there   3 when it was sealed (ms)   4 messages   5 content   6 msgpack of its
--       messages' media, a list for each message, as in media.lua   7 how long to keep it (ms)   8 random name of this write
-- Gives {'ok', number}, or {'media'} when a medium is neither here nor given
-- include conversation, media, branches
local entries = cmsgpack.unpack(ARGV[6])
for _, its in ipairs(entries) do
  if lacks_media({media = its}) then return {'media'} end
end
for _, its in ipairs(entries) do hold_media({media = its}) end
local heads, last = read_heads()
heads[#heads + 1] = {
  number = last + 1, parent = tonumber(ARGV[1]), after = tonumber(ARGV[2]), messages = tonumber(ARGV[4]), bytes = #ARGV[5],
  sealed = tonumber(ARGV[3])}
redis.call('HSET', branches, last + 1, ARGV[5])
write_heads(heads, last + 1, ARGV[8])
redis.call('PEXPIRE', branches, ARGV[7])
redis.call('PEXPIRE', media, ARGV[7])
return {'ok', last + 1}

#!lua
-- Put messages at the end of a branch, beside the staged messages of a conversation.
--
-- KEYS  the conversation's keys as staged
-- ARGV  1 number   2 parent   3 seq after which it hangs there   4 when it was sealed (ms)   5 messages   6 their content
--       7 msgpack of their media, a list for each message, as in media.lua   8 how long to keep it (ms)
--       9 random name of this write
-- Gives {'ok', bytes of all branches}, or {'media'} when a medium is neither here nor given
-- include conversation, media, branches
local number, entries, content = tonumber(ARGV[1]), cmsgpack.unpack(ARGV[7]), ARGV[6]
for _, its in ipairs(entries) do
  if lacks_media({media = its}) then return {'media'} end
end
for _, its in ipairs(entries) do hold_media({media = its}) end
local heads, last = read_heads()
local head
for _, each in ipairs(heads) do head = each.number == number and each or head end
if head then
  local before = redis.call('HGET', branches, number)
  local length, more = struct.unpack('<I4', before), struct.unpack('<I4', content)
  local its_media = string.sub(before, 5, 4 + length) .. ' ' .. string.sub(content, 5, 4 + more)
  content = struct.pack('<I4', #its_media) .. its_media .. string.sub(before, 5 + length) .. string.sub(content, 5 + more)
else
  head = {number = number, parent = tonumber(ARGV[2]), after = tonumber(ARGV[3]), messages = 0, sealed = tonumber(ARGV[4])}
  heads[#heads + 1] = head
end
head.messages, head.bytes = head.messages + ARGV[5], #content
redis.call('HSET', branches, number, content)
write_heads(heads, math.max(last, number), ARGV[9])
redis.call('PEXPIRE', branches, ARGV[8])
redis.call('PEXPIRE', media, ARGV[8])
local bytes = 0
for _, each in ipairs(heads) do bytes = bytes + each.bytes end
return {'ok', bytes}

-- Replace the contents of branches, behind branches.lua: msgpack of a list, each its number, the new content and the media that
-- it has no more, as in `release_all`; or ''.
local function replace_contents(packed, change)
  if packed == '' then return end
  local heads, last = read_heads()
  for _, each in ipairs(cmsgpack.unpack(packed)) do
    for _, head in ipairs(heads) do
      if head.number == each[1] then head.bytes = #each[2] end
    end
    redis.call('HSET', branches, each[1], each[2])
    release_all(each[3])
  end
  write_heads(heads, last, change)
end

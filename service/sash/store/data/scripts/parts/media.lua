-- Functions of scripts that change which pictures and files messages have (../../media_contents.py).
--
-- The hash `media` has two fields for each: its name, with the number of messages that have it, and 'size place type'; and,
-- where the store itself holds it, a colon and its name, with its text. An entry's media are each name, 'size place type',
-- text or '', and 1 where the place is new.
local NAME = 16 -- bytes of a name
local freed = {} -- objects in object storage that no message has any more, as 'name in hex-place'

local function held(name)
  local count, about = string.match(redis.call('HGET', media, name) or '', '^(%d+) (.+)$')
  return tonumber(count or 0), about
end

local function place_of(about) return string.match(about, '^%d+ (%S+) ') end

-- Whether one of an entry's media is neither here nor given, or is here in another place than the entry says.
local function lacks_media(entry)
  for _, each in ipairs(entry.media or {}) do
    local _, about = held(each[1])
    if about and place_of(about) ~= place_of(each[2]) or not about and each[4] ~= 1 then return true end
  end
  return false
end

-- Write the text of a medium, unless it is there. Of a sealed one only the length can be compared: its nonce is a new one.
local function write_text(each)
  if each[3] == '' then return end
  local standing = redis.call('HGET', media, ':' .. each[1])
  local is_there = standing and #standing == #each[3] and (standing == each[3] or string.byte(standing) == 1)
  if not is_there then redis.call('HSET', media, ':' .. each[1], each[3]) end
end

-- Note that one more message has these media.
local function hold_media(entry)
  for _, each in ipairs(entry.media or {}) do
    local count, about = held(each[1])
    redis.call('HSET', media, each[1], (count + 1) .. ' ' .. (about or each[2]))
    write_text(each)
  end
end

-- Write the texts of media that messages have, and that are lost.
local function restore_media(entry)
  for _, each in ipairs(entry.media or {}) do
    if held(each[1]) > 0 then write_text(each) end
  end
end

local function hex_of(name)
  return (string.gsub(name, '.', function(each) return string.format('%02x', string.byte(each)) end))
end

-- The names of an entry's media in hex, joined.
local function names_of(entry)
  local names = {}
  for place, each in ipairs(entry.media or {}) do names[place] = hex_of(each[1]) end
  return table.concat(names)
end

-- Note that so many messages fewer have a medium, and drop it after the last one.
local function release(name, less)
  local count, about = held(name)
  if count > less then
    redis.call('HSET', media, name, (count - less) .. ' ' .. about)
  elseif about then
    redis.call('HDEL', media, name, ':' .. name)
    local place = place_of(about)
    if place ~= '-' then freed[#freed + 1] = hex_of(name) .. '-' .. place end
  end
end

-- The same for several: each name in hex, and how many messages fewer have it.
local function release_all(counted)
  for hex, less in string.gmatch(counted, '(%x+) (%d+)') do
    local name = string.gsub(hex, '%x%x', function(each) return string.char(tonumber(each, 16)) end)
    release(name, tonumber(less))
  end
end

-- A reply, with the objects that no message has any more.
local function with_freed(reply)
  for _, each in ipairs(freed) do reply[#reply + 1] = each end
  return reply
end

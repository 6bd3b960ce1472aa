-- Functions of the append script for tool calls: the group that waits for results, and the messages that made a call.
local MAKERS = 8 -- messages that a link leads to

local open = waiting and waiting ~= '' and cjson.decode(waiting) or nil -- the tool group that waits for results

-- Take a call out of the open group. Gives whether it was there.
local function take(call)
  for place, each in ipairs(open and open.p or {}) do
    if each == call then return table.remove(open.p, place) ~= nil end
  end
  return false
end

local function group_of(seq, calls) return calls and {s = seq, x = #calls > 1 and 1 or 0, p = calls} or nil end

local makers = {} -- by link, of this write
-- Note the calls that a message makes.
local function note_calls(seq, rest)
  for first = 1, rest.makes and #rest.links or 0, LINK do
    local link, seqs = string.sub(rest.links, first, first + LINK - 1), {seq}
    for other in string.gmatch(makers[link] or redis.call('HGET', ids, '\0' .. link) or '', '%d+') do
      if tonumber(other) ~= seq then seqs[#seqs + 1] = tonumber(other) end
    end
    table.sort(seqs, function(one, other) return one > other end)
    makers[link] = table.concat(seqs, ' ', 1, math.min(#seqs, MAKERS))
    new_ids[#new_ids + 1] = '\0' .. link
    new_ids[#new_ids + 1] = makers[link]
  end
end

-- The seq of the newest message that makes the call with this link; nil where there is none. A rewind may leave links behind.
local function maker_of(link)
  if makers[link] then return tonumber(string.match(makers[link], '%d+')) end
  for each in string.gmatch(redis.call('HGET', ids, '\0' .. link) or '', '%d+') do
    local seq = tonumber(each)
    if seq <= length and string.find(details_at(seq), link, 12, true) then return seq end
  end
end

-- Functions of scripts that write a conversation's branches (../../branches.py), behind those of media.lua.
--
-- The field `heads` begins with the last number that a branch got and a random name of the last write to the branches. Behind
-- these each branch has its number, parent (0: the log), the seq after which it hangs there, messages, bytes, and when it was
-- sealed (ms); the oldest first. A field of its number has its content: its media, as in `release_all`, then its messages.
local HEADS, HEAD, HEAD_FORM, SIZES = 12, 28, '<I4I4I4I4I4d', '<I4I4I4I4'
local MOST_BRANCHES, MOST_BRANCH_BYTES = 100, 1048576

local function read_heads()
  local packed, heads = redis.call('HGET', branches, 'heads') or '', {}
  for at = HEADS + 1, #packed, HEAD do
    local number, parent, after, messages, bytes, sealed = struct.unpack(HEAD_FORM, packed, at)
    heads[#heads + 1] = {number = number, parent = parent, after = after, messages = messages, bytes = bytes, sealed = sealed}
  end
  return heads, packed ~= '' and struct.unpack('<I4', packed) or 0
end

local function write_heads(heads, last, change)
  local packed = {struct.pack('<I4', last), string.sub(change, 1, 8)}
  for _, each in ipairs(heads) do
    packed[#packed + 1] = struct.pack(HEAD_FORM, each.number, each.parent, each.after, each.messages, each.bytes, each.sealed)
  end
  redis.call('HSET', branches, 'heads', table.concat(packed))
end

-- Whether a branch hangs in the log behind message `seq`, or right behind it with `at`.
local function hangs(heads, seq, at)
  for _, each in ipairs(heads) do
    if each.parent == 0 and (each.after > seq or at and each.after == seq) then return true end
  end
  return false
end

-- Drop the branches of these numbers, and those that hang in them. Gives the other heads, the numbers of the dropped, and their
-- media, which are released last: a medium that a new message has stays.
local function drop_branches(heads, numbers)
  local gone, kept, dropped, freeing, is_more = numbers, {}, {}, {}, true
  while is_more do
    is_more = false
    for _, each in ipairs(heads) do
      if gone[each.parent] and not gone[each.number] then gone[each.number], is_more = true, true end
    end
  end
  for _, each in ipairs(heads) do
    if gone[each.number] then
      dropped[#dropped + 1] = each.number
      local content = redis.call('HGET', branches, each.number) or '\0\0\0\0'
      freeing[#freeing + 1] = string.sub(content, 5, 4 + struct.unpack('<I4', content))
      redis.call('HDEL', branches, each.number)
    else
      kept[#kept + 1] = each
    end
  end
  return kept, dropped, table.concat(freeing, ' ')
end

-- The messages behind `keep` as a branch's content; nil where they have too many bytes, which is known before all are read.
local function content_behind(keep, length, its_media)
  if (length - keep) * (16 + RECORD) > MOST_BRANCH_BYTES then return nil end
  local records, size = redis.call('GETRANGE', counts, keep * RECORD, length * RECORD - 1), 0
  for at = 13, #records, RECORD do
    size = size + 16 + RECORD + struct.unpack('<I4', records, at)
    if size > MOST_BRANCH_BYTES then return nil end
  end
  local parts = {struct.pack('<I4', #its_media), its_media}
  local place, bodies, its_details = 0, redis.call('LRANGE', log, keep, length - 1), redis.call('LRANGE', details, keep, length - 1)
  for first = keep + 1, length, CHUNK do
    local seqs = {}
    for seq = first, math.min(first + CHUNK - 1, length) do seqs[#seqs + 1] = seq end
    local documents, notes = redis.call('HMGET', grounding, unpack(seqs)), redis.call('HMGET', metadata, unpack(seqs))
    for index in ipairs(seqs) do
      place = place + 1
      local record = string.sub(records, (place - 1) * RECORD + 1, place * RECORD)
      local flags, its = string.byte(record), {its_details[place], bodies[place], '', ''}
      if math.floor(flags / 2) % 2 == 1 then its[3] = documents[index] or '' end -- as a rewind may leave others' behind
      if math.floor(flags / 4) % 2 == 1 then its[4] = notes[index] or '' end
      parts[#parts + 1] = struct.pack(SIZES, #its[1], #its[2], #its[3], #its[4]) .. record .. table.concat(its)
    end
  end
  local content = table.concat(parts)
  return #content <= MOST_BRANCH_BYTES and content or nil
end

-- Make a branch of the messages behind `keep`, before they are forgotten. `how.seal`: 'always', 'hung' where a branch hangs in
-- them, or never; `how.media` are their media. What hangs in them hangs in the branch then, or is dropped with them. `took` are
-- branches of which the log gets the first `used` messages: the rest, `content`, hangs behind these, and `media` are those
-- of the used. At the end the oldest branches are dropped that are too many. Gives {the branch's number or 0, its messages, the
-- numbers of the dropped}, or nil where nothing changes; and the media to release, once new messages have theirs.
local function seal(keep, length, how, now, change)
  local heads, last = read_heads()
  local is_hung, sealed, all_dropped, freeing = hangs(heads, keep), 0, {}, {}
  local function drop(numbers)
    local dropped, its_media
    heads, dropped, its_media = drop_branches(heads, numbers)
    freeing[#freeing + 1] = its_media
    for _, number in ipairs(dropped) do all_dropped[#all_dropped + 1] = number end
  end
  local content
  if keep < length and (how.seal == 'always' or how.seal == 'hung' and is_hung) then
    content = content_behind(keep, length, how.media)
    if not content then last, all_dropped[1] = last + 1, last + 1 end
  end
  if not content then freeing[1] = how.media end
  if not content and #heads == 0 and #all_dropped == 0 then return nil, how.media end
  if content then
    last, sealed = last + 1, last + 1
  end
  local hung = {}
  for _, each in ipairs(heads) do
    if each.parent == 0 and each.after > keep then
      if content then each.parent = sealed else hung[each.number] = true end
    end
  end
  drop(hung)
  if content then
    redis.call('HSET', branches, sealed, content)
    heads[#heads + 1] = {
      number = sealed, parent = 0, after = keep, messages = length - keep, bytes = #content, sealed = tonumber(now)}
  end
  for _, took in ipairs(how.took or {}) do
    local kept = {}
    for _, each in ipairs(heads) do
      local is_it = each.number == took.number
      if is_it then
        local ends = each.after + took.used
        for _, other in ipairs(heads) do
          if other.parent == each.number and other.after <= ends then other.parent = 0 end
        end
        each.parent, each.after, each.messages, each.bytes = 0, ends, each.messages - took.used, #took.content
      end
      if not is_it or took.content ~= '' then kept[#kept + 1] = each end
    end
    heads = kept
    if took.content == '' then
      redis.call('HDEL', branches, took.number)
    else
      redis.call('HSET', branches, took.number, took.content)
    end
    freeing[#freeing + 1] = took.media
  end
  local bytes = 0
  for _, each in ipairs(heads) do bytes = bytes + each.bytes end
  while #heads > MOST_BRANCHES or bytes > MOST_BRANCH_BYTES do
    drop({[heads[1].number] = true})
    bytes = 0
    for _, each in ipairs(heads) do bytes = bytes + each.bytes end
  end
  write_heads(heads, last, change)
  return {sealed, content and length - keep or 0, unpack(all_dropped)}, table.concat(freeing, ' ')
end

-- Functions of scripts that replace the settings or the summary, for windows that are made again (earlier.py). A field has an
-- entry for each earlier value, oldest first: the last version that had it, the last message that a summary covers, the value's
-- size, and the value, which is empty where there was none.
local EARLIER, LOST = '<I4I4I4', 4294967295 -- lost: the value is no longer known, nor are those of earlier versions without one

-- The field with an entry more. Where they are too many, or too large, the oldest go.
local function with_earlier(kept, version, through, value)
  local HEAD, MOST, MOST_BYTES = 12, 8, 262144
  local all, count, at, lost = (kept or '') .. struct.pack(EARLIER, version, through, #value) .. value, 0, 1, nil
  while at < #all do
    local _, _, size = struct.unpack(EARLIER, all, at)
    count, at = count + 1, at + HEAD + size
  end
  while count > MOST or #all > MOST_BYTES do
    local last, _, size = struct.unpack(EARLIER, all)
    lost, all, count = last, string.sub(all, HEAD + size + 1), count - 1
  end
  return lost and struct.pack(EARLIER, lost, LOST, 0) .. all or all
end

-- Forget the texts of earlier summaries that cover more than message `last`, because they may hold what is taken away.
local function forget_earlier_summaries(last)
  local HEAD, kept, left, at = 12, redis.call('HGET', conversation, 'summaries_before'), {}, 1
  while kept and at < #kept do
    local version, through, size = struct.unpack(EARLIER, kept, at)
    local stays = through <= last or through == LOST
    left[#left + 1] = stays and string.sub(kept, at, at + HEAD + size - 1) or struct.pack(EARLIER, version, LOST, 0)
    at = at + HEAD + size
  end
  if kept then redis.call('HSET', conversation, 'summaries_before', table.concat(left)) end
end

-- Functions of scripts that write the index of a conversation's words and vectors (../../blocks.py).
local MOST_BLOCKS = 10000

-- The number of messages in an index (words or vectors), from the first on.
local function indexed(index) return tonumber(redis.call('HGET', index, 'n') or 0) end

-- The first `count` values of a block: the words or vectors of its messages.
local function read_block(index, block, count)
  local packed, values, at = redis.call('HGET', index, block), {}, 4 * BLOCK + 1
  for place = 1, count do
    local size = struct.unpack('<I4', packed, 4 * place - 3)
    values[place] = string.sub(packed, at, at + size - 1)
    at = at + size
  end
  return values
end

local function write_block(index, block, values)
  local sizes = {}
  for place = 1, BLOCK do sizes[place] = struct.pack('<I4', #(values[place] or '')) end
  redis.call('HSET', index, block, table.concat(sizes) .. table.concat(values))
end

-- Keep only the first `keep` messages of an index. An index that is very much longer is dropped, and made anew later.
local function cut_index(index, keep)
  local count = indexed(index)
  if count <= keep then return end
  local block, last = math.floor(keep / BLOCK), math.floor((count - 1) / BLOCK)
  if keep == 0 or last - block > MOST_BLOCKS then
    redis.call('UNLINK', index)
    return
  end
  if keep % BLOCK > 0 then
    write_block(index, block, read_block(index, block, keep % BLOCK))
    block = block + 1
  end
  for first = block, last, CHUNK do
    local fields = {}
    for each = first, math.min(first + CHUNK - 1, last) do fields[#fields + 1] = each end
    redis.call('HDEL', index, unpack(fields))
  end
  redis.call('HSET', index, 'n', keep)
end

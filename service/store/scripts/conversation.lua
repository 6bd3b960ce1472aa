-- Functions that scripts about one conversation share. They take its keys in this order: conversation, log, counts, details, ids,
-- grounding, metadata, pinned, word_blocks, vector_blocks, columns, answers, done.
-- A script that reads gets the first eight.
local conversation, log, counts, details, ids, grounding, metadata, pinned, words, vectors, columns, answers, done = unpack(KEYS)
local KEPT, DAY, RECORD, CHUNK = 11, 86400000, 24, 1000
local BLOCK, MOST_BLOCKS = 8, 10000
local RICH, MIXED = 64, 128 -- the two highest bits of a record's first byte

-- The entity tag of a state: version, life, and the name of the last write. A store that lost its newest writes uses
-- versions again, but never the name of a write.
local function etag_of(version, life, change) return version .. '-' .. (life or '') .. '-' .. (change or '') end

local function stands(if_match, etag) return if_match == '' or if_match == '*' or if_match == etag end

-- The key that is missing or too short, if any: an evicted key must not look like a shorter history.
local function damage(length, pins, grounded)
  local counted, detailed = redis.call('STRLEN', counts) / RECORD, redis.call('LLEN', details)
  if counted ~= length then return counted == detailed and 'log' or 'counts' end
  if detailed ~= length then return 'details' end
  if pins and pins ~= '0' and redis.call('HLEN', pinned) ~= tonumber(pins) then return 'pinned' end
  if grounded and grounded ~= '0' and redis.call('HLEN', grounding) < tonumber(grounded) then return 'grounding' end
end

-- The error of the first of these commands that the user may not run. A script is not undone where a command in its middle is
-- denied, so it asks about all that write before the first of them. Servers of other makes may not know how to ask.
local function denial_of(commands)
  for _, command in ipairs(redis.acl_check_cmd and commands or {}) do
    if not redis.acl_check_cmd(command, log) then
      return redis.error_reply("NOPERM the user may not run the '" .. string.lower(command) .. "' command")
    end
  end
end

-- A remaining key of a conversation without its hash; nil where there is no conversation.
local function remains()
  if redis.call('EXISTS', log, counts, details, ids, grounding, metadata, pinned) > 0 then return 'conversation' end
end

-- Renew the time to live of all keys. Answers and tokens of requests expire after a day at the latest.
local function renew(ttl)
  if not ttl then return end
  for index = 1, KEPT do redis.call('PEXPIRE', KEYS[index], ttl) end
  redis.call('PEXPIRE', answers, math.min(ttl, DAY))
  redis.call('PEXPIRE', done, math.min(ttl, DAY))
end

-- Write a new version, with other fields and their values; gives its entity tag. A conversation without a life, from an
-- older version of Sash, gets one now.
local function write_version(version, life, change, now, fields)
  local short = string.sub(change, 1, 8)
  redis.call('HSET', conversation, 'v', version, 'life', life or change, 'change', short, 'updated', now, unpack(fields or {}))
  return etag_of(version, life or change, short)
end

-- Drop the answers that are kept for retries: they may show what this write takes away. An answer that was made before this
-- version, but is not yet kept, is refused by keep_answer.
local function forget_answers(version)
  redis.call('UNLINK', answers)
  redis.call('HSET', conversation, 'forgot', version)
end

local function was_done(token) return redis.call('HEXISTS', done, token) == 1 end

-- Note that a request was done, so that a repetition changes nothing. Not every server can expire fields, so each new
-- field drops a few old ones.
local function mark_done(token, now, ttl)
  redis.call('HSET', done, token, now)
  local some = redis.call('HRANDFIELD', done, 4, 'WITHVALUES')
  for index = 1, #some, 2 do
    if some[index + 1] + DAY < tonumber(now) then redis.call('HDEL', done, some[index]) end
  end
  redis.call('PEXPIRE', done, math.min(ttl or DAY, DAY))
end

-- Drop documents and metadata of up to CHUNK messages that a rewind took away; `stale` is the last seq that may have some.
local function sweep(length, stale)
  local first, seqs = math.max(length, stale - CHUNK) + 1, {}
  for seq = first, stale do seqs[#seqs + 1] = seq end
  if #seqs > 0 then
    redis.call('HDEL', grounding, unpack(seqs))
    redis.call('HDEL', metadata, unpack(seqs))
  end
  if first - 1 <= length then
    redis.call('HDEL', conversation, 'stale')
    return 0
  end
  redis.call('HSET', conversation, 'stale', first - 1)
  return first - 1
end

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

-- Whether a record has a flag of its first byte.
local function has(record, flag) return math.floor(string.byte(record, 1) / flag) % 2 == 1 end

-- The field `rich` after a message with this record: '1' where some message's details change its cost, 'scripts' where some
-- have its scripts alone, which only estimates need; false where no details are needed.
local function richer(rich, record)
  if rich == '1' or has(record, RICH) then return '1' end
  return has(record, MIXED) and 'scripts' or rich
end

local function pin_value(record, its_details, body) return struct.pack('>I4', #its_details) .. record .. its_details .. body end

-- Functions that scripts about one conversation share. They take its keys in this order: conversation, log, counts, details, ids,
-- grounding, metadata, pinned, words, vectors, columns, answers, done.
local conversation, log, counts, details, ids, grounding, metadata, pinned, words, vectors, columns, answers, done = unpack(KEYS)
local KEPT, DAY, RECORD, CHUNK = 11, 86400000, 24, 1000

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
-- version, and is to be kept only now, is dropped by keep_answer.
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

-- Whether a record has a flag of its first byte.
local function has(record, flag) return math.floor(string.byte(record, 1) / flag) % 2 == 1 end

local function pin_value(record, its_details, body) return struct.pack('>I4', #its_details) .. record .. its_details .. body end

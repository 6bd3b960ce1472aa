-- Functions that scripts about one conversation share. They take its keys in this order: conversation, log, counts, details, ids,
-- grounding, metadata, pinned, word_blocks, vector_blocks, columns, media, branches, done.
-- A script that reads gets the first eight.
local conversation, log, counts, details, ids, grounding, metadata, pinned, words, vectors, columns, media, branches, done =
  unpack(KEYS)
local RECORD, CHUNK = 28, 1000
local BLOCK = 8 -- messages whose words, or vectors, are in one field (../../blocks.py)
local RICH, MIXED, IN_PROGRESS, LEFT_OUT = 64, 128, 128, 1 -- the two highest bits of a record's first byte, two of its fourth

-- The entity tag of a state: version, life, and the name of the last write. A store that lost its newest writes uses
-- versions again, but never the name of a write.
local function etag_of(version, life, change) return version .. '-' .. life .. '-' .. change end

-- The key that is missing or too short, if any: an evicted key must not look like a shorter history.
local function damage(length, pins, grounded)
  local counted, detailed = redis.call('STRLEN', counts) / RECORD, redis.call('LLEN', details)
  if counted ~= length then return counted == detailed and 'log' or 'counts' end
  if detailed ~= length then return 'details' end
  if pins and pins ~= '0' and redis.call('HLEN', pinned) ~= tonumber(pins) then return 'pinned' end
  if grounded and grounded ~= '0' and redis.call('HLEN', grounding) < tonumber(grounded) then return 'grounding' end
end

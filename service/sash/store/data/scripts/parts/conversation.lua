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

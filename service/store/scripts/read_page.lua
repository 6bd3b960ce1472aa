#!lua flags=no-writes
-- Read a stretch of history with all that is kept about it, as far as its bytes go: bodies, documents and metadata. One
-- message is read whatever it weighs. Details are not counted: they are short, but for what repeats a part of the body.
-- Bodies of more than NEAR bytes are asked for by a plain LRANGE: what passes through a script is copied where all wait.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned
-- ARGV  1 first seq, or negative from the end   2 last seq, or negative   3 most bytes   4 '1' when it is the newest that are
--       wanted if those are not enough for all, else ''
-- Gives {} or {{tenant/conversation, version, created, edited or false}, length, first seq, records joined,
--       {details, …}, {body, …} or false, {documents or false, …}, {metadata or false, …}}
local RECORD, SIZE, NEAR, GROUNDED, NOTED = 24, 12, 131072, 2, 4
local state = redis.call('HMGET', KEYS[1], 'id', 'v', 'created', 'edited')
if not state[1] then return {} end
local length = redis.call('LLEN', KEYS[2])
local first, last = tonumber(ARGV[1]), tonumber(ARGV[2])
if first < 0 then first = length + 1 + first end
if last < 0 then last = length + 1 + last end
first = math.max(first, 1)
last = math.min(last, length)
if last < first then
  return {state, length, first, '', {}, {}, {}, {}}
end

local records = redis.call('GETRANGE', KEYS[3], (first - 1) * RECORD, last * RECORD - 1)
local left, documents, metadata = tonumber(ARGV[3]), {}, {}
local function kept(key, flags, flag, seq)
  return math.floor(flags / flag) % 2 == 1 and redis.call('HGET', key, seq) or false
end
local from, to, step = first, last, 1
if ARGV[4] == '1' then from, to, step = last, first, -1 end
local reached, bytes = from, 0
for seq = from, to, step do
  local at = (seq - first) * RECORD
  local flags = string.byte(records, at + 1)
  local its_documents, its_metadata = kept(KEYS[6], flags, GROUNDED, seq), kept(KEYS[7], flags, NOTED, seq)
  local size = struct.unpack('<I4', records, at + SIZE + 1)
  left = left - size - #(its_documents or '') - #(its_metadata or '')
  if left < 0 and seq ~= from then break end
  documents[seq], metadata[seq], reached, bytes = its_documents, its_metadata, seq, bytes + size
end

local start, stop = math.min(from, reached), math.max(from, reached)
local document_list, metadata_list = {}, {}
for seq = start, stop do
  document_list[#document_list + 1], metadata_list[#metadata_list + 1] = documents[seq], metadata[seq]
end
return {
  state, length, start,
  string.sub(records, (start - first) * RECORD + 1, (stop - first + 1) * RECORD),
  redis.call('LRANGE', KEYS[4], start - 1, stop - 1), bytes <= NEAR and redis.call('LRANGE', KEYS[2], start - 1, stop - 1),
  document_list, metadata_list,
}

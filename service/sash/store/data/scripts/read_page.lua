#!lua flags=no-writes
-- Read neighbouring messages with all that is kept about them. Bodies of more than NEAR bytes together must be read by a
-- plain LRANGE: a script copies its reply once more, while all clients wait.
--
-- ARGV  1 first seq, or negative from the end   2 last seq, or negative   3 limit of bytes   4 '1' to give the newest messages
--       where the limit is too low for all, else ''
-- Gives {}, {'damaged', part}, or {'ok', tenant/conversation, version, life, change, edited or false, length, first seq,
--       records joined, {details, …}, {body, …} or false, {documents or false, …}, {metadata or false, …}}
-- include conversation, damage
local SIZE, NEAR, GROUNDED, NOTED = 12, 131072, 2, 4
local name, version, life, change, edited, pins, grounded =
  unpack(redis.call('HMGET', conversation, 'id', 'v', 'life', 'change', 'edited', 'pins', 'gn'))
if not name then
-- include remains
  return left and {'damaged', left} or {}
end
local length = redis.call('LLEN', log)
local missing = damage(length, pins, grounded)
if missing then return {'damaged', missing} end
local first, last = tonumber(ARGV[1]), tonumber(ARGV[2])
if first < 0 then first = length + 1 + first end
if last < 0 then last = length + 1 + last end
first = math.max(first, 1)
if ARGV[4] == '1' and last > length then first = math.max(1, first - (last - length)) end
last = math.min(last, length)
if last < first then return {'ok', name, version, life, change, edited, length, first, '', {}, {}, {}, {}} end

local records = redis.call('GETRANGE', counts, (first - 1) * RECORD, last * RECORD - 1)
local left, documents, notes = tonumber(ARGV[3]), {}, {}
local function kept(key, part, flags, flag, seq)
  if math.floor(flags / flag) % 2 == 0 then return false end
  local value = redis.call('HGET', key, seq)
  if not value then missing = part end
  return value
end
local from, to, step = first, last, 1
if ARGV[4] == '1' then from, to, step = last, first, -1 end
local reached, bytes = from, 0
for seq = from, to, step do
  local at = (seq - first) * RECORD
  local flags = string.byte(records, at + 1)
  local its_documents = kept(grounding, 'grounding', flags, GROUNDED, seq)
  local its_notes = kept(metadata, 'metadata', flags, NOTED, seq)
  local size = struct.unpack('<I4', records, at + SIZE + 1)
  left = left - size - #(its_documents or '') - #(its_notes or '')
  if left < 0 and seq ~= from then break end
  documents[seq], notes[seq], reached, bytes = its_documents, its_notes, seq, bytes + size
end
if missing then return {'damaged', missing} end

local start, stop = math.min(from, reached), math.max(from, reached)
local document_list, note_list = {}, {}
for seq = start, stop do
  document_list[#document_list + 1], note_list[#note_list + 1] = documents[seq], notes[seq]
end
return {
  'ok', name, version, life, change, edited, length, start,
  string.sub(records, (start - first) * RECORD + 1, (stop - first + 1) * RECORD),
  redis.call('LRANGE', details, start - 1, stop - 1), bytes <= NEAR and redis.call('LRANGE', log, start - 1, stop - 1),
  document_list, note_list,
}

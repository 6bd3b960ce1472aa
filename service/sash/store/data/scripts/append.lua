#!lua
-- Append entries, all or none, each id once. Creates the conversation when it is not there. While an entry in progress is
-- the newest, an entry with the same id replaces it.
--
-- ARGV  1 JSON: name, now (ms), if_match, change (a random name for this write), before (messages that must be there, or
--         none), most_pinned, ttl (ms, of a new conversation, or none), and entries, each with: id, makes (ids of the tool
--         calls that it makes), answers (the call that it answers), always (belongs in every window), tokens, parallel
--         (tokens when it answers one of several calls), documents (tokens of its documents), each as {o200k, cl100k}; progress
--         (it is still being written)
--       2 settings of a new conversation; then for each entry: record, details, body, grounding or '', metadata or ''
-- Gives {'ok', version, etag, settings, edited, then for each entry: seq, 1 for a duplicate, 1 for a parallel result}
--    or {'moved', version} {'conflict', index, 1 if a longer text of this entry in progress is stored} {'orphan', index}
--       {'pinned', index} {'foreign'} {'sealed'} {'damaged', part}
--
-- Everything is checked before anything is written: a script is atomic, but it is not undone.
-- include conversation, records, writing, blocks
local BLOBS = 5
local PARALLEL, REDACTED, LEGACY_CALL = 8, 16, 32
local USER, FUNCTION, IN_PROGRESS = 2, 5, 128 -- in progress: added to a record's byte 4
local SEALED, PLAIN = 1, 123 -- the first byte of an encrypted value, and of settings that are not encrypted
local asked = cjson.decode(ARGV[1])
local entries = asked.entries

local state = redis.call('HMGET', conversation,
  'id', 'v', 'life', 'change', 's', 't0', 't1', 'gn', 'g0', 'g1', 'open', 'ttl', 'user', 'pins', 'stale',
  'edited', 'sealed', 'rich')
local name, version, life, change, settings, t0, t1, gn, g0, g1, open, ttl, user, pins, stale, edited, encrypted, was_rich = unpack(state)
local exists = name ~= false
if exists and name ~= asked.name then return {'foreign'} end
-- A writer without a key must not add plain text to an encrypted conversation.
if exists and string.byte(ARGV[2]) == PLAIN and (encrypted or string.byte(settings) ~= PLAIN) then return {'sealed'} end
local length = redis.call('LLEN', log)
local missing
if exists then missing = damage(length, pins, gn) else missing = remains() end
if not missing and length > 0 and redis.call('EXISTS', ids) == 0 then missing = 'ids' end
if missing then return {'damaged', missing} end
open = open and open ~= '' and cjson.decode(open) or nil
pins = tonumber(pins or redis.call('HLEN', pinned))
local was_user, was_open = user, state[11]

local function size_of(record) return (struct.unpack('<I4', record, 13)) end
local function role_of(record) return string.byte(record, 2) end
local function digest_of(its_details) return string.sub(its_details, 4, 19) end
local function record_at(seq) return redis.call('GETRANGE', counts, (seq - 1) * RECORD, seq * RECORD - 1) end
local function blobs_of(index) return unpack(ARGV, 3 + (index - 1) * BLOBS, 2 + index * BLOBS) end

-- Remove the words and vectors of message `seq` and of later ones from the index; they are indexed again later.
local function unindex(seq)
  cut_index(words, seq - 1)
  cut_index(vectors, seq - 1)
end

-- The seq of an entry that is stored. A rewind may leave ids behind whose message is gone, or is another one. So the id is
-- compared with the one in the details, a msgpack string after the digest.
local function stored_seq(id)
  local seq = tonumber(redis.call('HGET', ids, id) or nil)
  if not seq or seq > length then return nil end
  local head = #id < 32 and string.char(0xa0 + #id) or '\217' .. string.char(#id)
  return string.find(redis.call('LINDEX', details, seq - 1), head .. id, 20, true) == 20 and seq or nil
end

-- The tokens that an entry in progress has in the totals, if it may be replaced by this entry; else nil, and whether the
-- stored text is longer: then this is a late retry.
local function draft_of(seq, its_record, entry)
  local record = seq == length and record_at(seq)
  if not record or string.byte(record, 4) < IN_PROGRESS then return nil end
  if entry.progress and size_of(its_record) < size_of(record) then return nil, true end
  local at, o200k, cl100k = string.match(redis.call('HGET', conversation, 'draft') or '', '^(%d+) (%d+) (%d+)$')
  return tonumber(at) == seq and {tonumber(o200k), tonumber(cl100k)} or nil
end

-- First pass: find out what would happen.
local plan, in_batch, fresh, fresh_pins, pinned_groups, always_seq = {}, {}, 0, 0, {}, 0
local replaced

local function is_pinned(seq) return seq == always_seq or seq <= length and redis.call('HEXISTS', pinned, seq) == 1 end

-- The number of messages that a step adds to every window: a pinned member of a tool group pins its whole group.
local function pins_of(step, always)
  local group = step.group
  if not group then return always and 1 or 0 end
  if pinned_groups[group] == nil then
    pinned_groups[group] = group <= length and redis.call('HEXISTS', pinned, group) == 1
  end
  if pinned_groups[group] then return 1 end
  if not always then return 0 end
  pinned_groups[group] = true
  return step.seq - group + 1
end
for index, entry in ipairs(entries) do
  local its_record, its_details = blobs_of(index)
  local earlier = in_batch[entry.id]
  local seq = not earlier and exists and stored_seq(entry.id)
  if earlier or seq then
    local known = earlier and earlier.details or redis.call('LINDEX', details, seq - 1)
    -- A redacted message stays redacted, whatever is sent again under its id: its old content is unknown.
    local redacted = seq and has(record_at(seq), REDACTED)
    local other = digest_of(known) ~= digest_of(its_details) and not redacted
    local draft, is_longer
    if other and seq and not replaced and fresh == 0 then draft, is_longer = draft_of(seq, its_record, entry) end
    if other and not draft then return {'conflict', index - 1, is_longer and 1 or 0} end
    -- Equal details mean that this same call was sent again, because its reply was lost: that is no duplicate.
    plan[index] = {
      seq = seq or earlier.seq, duplicate = not draft and (earlier or known ~= its_details) and 1 or 0,
      parallel = earlier and earlier.parallel or seq and has(record_at(seq), PARALLEL) and 1 or 0,
      details = its_details, draft = draft,
    }
    if draft then
      replaced = plan[index]
      open = entry.makes and {s = seq, x = #entry.makes > 1 and 1 or 0, p = entry.makes} or nil
      if entry.always then fresh_pins, always_seq = fresh_pins + 1, seq end
      if entry.always and entry.makes then pinned_groups[seq] = true end
      if fresh_pins > 0 and pins + fresh_pins > asked.most_pinned then return {'pinned', index - 1} end
      in_batch[entry.id] = replaced
    end
  else
    fresh = fresh + 1
    local step = {seq = length + fresh, fresh = true, duplicate = 0, parallel = 0, details = its_details}
    if entry.answers then
      local place
      for i, call in ipairs(open and open.p or {}) do
        if call == entry.answers then place = i end
      end
      if not place then return {'orphan', index - 1} end
      table.remove(open.p, place)
      step.parallel, step.group = open.x, open.s
    elseif entry.makes then
      open = {s = step.seq, x = #entry.makes > 1 and 1 or 0, p = entry.makes}
    else
      open = nil
    end
    fresh_pins = fresh_pins + pins_of(step, entry.always)
    -- A pinned function result pins its call, and a pinned call its result.
    if role_of(its_record) == FUNCTION and (entry.always or is_pinned(step.seq - 1)) then fresh_pins = fresh_pins + 1 end
    always_seq = entry.always and step.seq or always_seq
    if entry.always and entry.makes then pinned_groups[step.seq] = true end
    if fresh_pins > 0 and pins + fresh_pins > asked.most_pinned then return {'pinned', index - 1} end
    plan[index] = step
    in_batch[entry.id] = step
  end
end
-- The entity tag of a missing conversation is 0.
local writes = fresh > 0 or replaced
if writes and not stands(asked.if_match, exists and etag_of(version, life, change) or '0') then
  return {'moved', tonumber(version or 0)}
end
if writes and asked.if_match == '*' and not exists then return {'moved', 0} end
if writes and asked.before and asked.before ~= length then return {'moved', tonumber(version or 0)} end

-- Second pass: write.
local is_plain = exists and not (replaced or stale or ttl or fresh_pins > 0)
local denial = writes and (denial_of({'RPUSH', 'HSET', 'APPEND'})
  or not is_plain and denial_of({'HDEL', 'HLEN', 'HSETNX', 'LSET', 'PEXPIRE', 'SETRANGE', 'UNLINK'}))
if denial then return denial end
local etag = exists and etag_of(version, life, change) or ''
version = tonumber(version or 0)
if writes then
  version = version + 1
  t0, t1, gn, g0, g1 = tonumber(t0 or 0), tonumber(t1 or 0), tonumber(gn or 0), tonumber(g0 or 0), tonumber(g1 or 0)
  user = user or '0'
  local rich, sealed = was_rich, false
  if not exists then
    settings, ttl, life = ARGV[2], asked.ttl, asked.change
    redis.call('UNLINK', words, vectors, answers, done)
    redis.call('HSET', conversation, 's', settings, 'created', asked.now, 'pins', 0)
    if ttl then redis.call('HSET', conversation, 'ttl', ttl) end
  end
  local bodies, records, detail_list, id_seqs = {}, {}, {}, {}
  local function at(seq)
    if seq > length then
      local place = seq - length
      return records[place], detail_list[place], bodies[place]
    end
    return record_at(seq), redis.call('LINDEX', details, seq - 1), redis.call('LINDEX', log, seq - 1)
  end
  local newest_draft = false
  for index, entry in ipairs(entries) do
    local step = plan[index]
    if step.draft then
      local record, its_details, body, _, notes = blobs_of(index)
      redis.call('LSET', log, step.seq - 1, body)
      redis.call('LSET', details, step.seq - 1, its_details)
      redis.call('SETRANGE', counts, (step.seq - 1) * RECORD, record)
      unindex(step.seq)
      redis.call('HDEL', metadata, step.seq)
      if notes ~= '' then redis.call('HSET', metadata, step.seq, notes) end
      if entry.always then redis.call('HSET', pinned, step.seq, pin_value(record, its_details, body)) end
      t0, t1 = t0 - step.draft[1] + entry.tokens[1], t1 - step.draft[2] + entry.tokens[2]
      rich, sealed = richer(rich, record), sealed or string.byte(body) == SEALED
      newest_draft = entry.progress and step.seq .. ' ' .. entry.tokens[1] .. ' ' .. entry.tokens[2]
    end
    if step.fresh then
      newest_draft = entry.progress and step.seq .. ' ' .. entry.tokens[1] .. ' ' .. entry.tokens[2]
      local record, its_details, body, documents, notes = blobs_of(index)
      if step.parallel == 1 and not has(record, PARALLEL) then
        record = string.char(string.byte(record, 1) + PARALLEL) .. string.sub(record, 2)
      end
      if role_of(record) == FUNCTION and step.seq > 1 and has((at(step.seq - 1)), LEGACY_CALL) then
        step.group = step.seq - 1
      end
      local place = step.seq - length
      records[place], detail_list[place], bodies[place] = record, its_details, body
      id_seqs[#id_seqs + 1] = entry.id
      id_seqs[#id_seqs + 1] = step.seq
      rich, sealed = richer(rich, record), sealed or string.byte(body) == SEALED
      if stale then
        redis.call('HDEL', grounding, step.seq)
        unindex(step.seq)
        redis.call('HDEL', metadata, step.seq)
      end
      if documents ~= '' then
        redis.call('HSET', grounding, step.seq, documents)
        gn, g0, g1 = gn + 1, g0 + entry.documents[1], g1 + entry.documents[2]
      end
      if notes ~= '' then redis.call('HSET', metadata, step.seq, notes) end
      -- A pinned call or result pins its whole group. The calls are near the end of the lists.
      if step.group and (entry.always or redis.call('HEXISTS', pinned, step.group) == 1) then
        for member = step.group, step.seq do redis.call('HSETNX', pinned, member, pin_value(at(member))) end
      elseif entry.always then
        redis.call('HSET', pinned, step.seq, pin_value(record, its_details, body))
      end
      local tokens = step.parallel == 1 and entry.parallel or entry.tokens
      t0, t1 = t0 + tokens[1], t1 + tokens[2]
      if role_of(record) == USER then user = step.seq end
    end
  end
  for first = 1, fresh, CHUNK do
    local last = math.min(first + CHUNK - 1, fresh)
    redis.call('RPUSH', log, unpack(bodies, first, last))
    redis.call('RPUSH', details, unpack(detail_list, first, last))
    redis.call('HSET', ids, unpack(id_seqs, 2 * first - 1, 2 * last))
  end
  if fresh > 0 then redis.call('APPEND', counts, table.concat(records)) end
  -- Only changed fields are written, because each one costs printing its number and looking the field up.
  local waits = open and #open.p > 0 and cjson.encode(open) or ''
  local fields = {'t0', t0, 't1', t1}
  local function note(field, value)
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
  -- A conversation is there once it has an id, which is written last: a command before may be denied.
  if not exists then note('id', asked.name) end
  if gn > tonumber(state[8] or 0) then
    note('gn', gn)
    note('g0', g0)
    note('g1', g1)
  end
  if user ~= was_user then note('user', user) end
  if waits ~= (was_open or '') then note('open', waits) end
  if fresh_pins > 0 or not state[14] then note('pins', redis.call('HLEN', pinned)) end
  if newest_draft then note('draft', newest_draft) end
  -- This value makes reads in several steps begin again. Checks for edits of earlier messages compare only the part before
  -- the tilde, which stays.
  if replaced then
    edited = string.match(edited or '', '^[^~]*') .. '~' .. string.sub(asked.change, 1, 8)
    note('edited', edited)
  end
  if rich ~= was_rich then note('rich', rich) end
  if sealed then note('sealed', 1) end
  etag = write_version(version, life, asked.change, asked.now, fields)
  if stale then sweep(length + fresh, tonumber(stale)) end
  renew(ttl)
end

local reply = {'ok', version, etag, settings or ARGV[2], edited or ''}
for index = 1, #entries do
  reply[#reply + 1] = plan[index].seq
  reply[#reply + 1] = plan[index].duplicate
  reply[#reply + 1] = plan[index].parallel
end
return reply

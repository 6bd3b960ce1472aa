#!lua
-- Append entries, all or none, each id once. Creates the conversation when it is not there. While an entry in progress is
-- the newest, an entry with the same id replaces it.
--
-- ARGV  1 JSON: name, now (ms), if_match, change (a random name for this write), before (messages that must be there, or
--         none), most_pinned, ttl (ms, of a new conversation, or none), repeats (the life in which this same request was done
--         before, so that only its entries' places are asked for, or none), and entries, each with: id, makes (ids of the tool
--         calls that it makes), answers (the call that it answers), always (belongs in every window), tokens, parallel
--         (tokens when it answers one of several calls), documents (tokens of its documents), each as {o200k, cl100k}; progress
--         (it is still being written)
--       2 settings of a new conversation; then for each entry: record, details, body, grounding or '', metadata or ''
-- Gives {'ok', version, etag, settings, edited, then for each entry: seq, 1 for a duplicate, 1 for a parallel result}
--    or {'moved', version} {'conflict', index, 1 if a longer text of this entry in progress is stored} {'orphan', index}
--       {'pinned', index} {'foreign'} {'sealed'} {'damaged', part} {'undone'}, or {} when the life of `repeats` has ended
--
-- Three steps: read what stands, plan what each entry does, write. A script is not undone, so the first write comes after the
-- last refusal.
-- include conversation, records, writing, blocks
local BLOBS = 5
local PARALLEL, REDACTED, LEGACY_CALL = 8, 16, 32
local USER, FUNCTION, IN_PROGRESS = 2, 5, 128 -- in progress: added to a record's byte 4
local SEALED, PLAIN = 1, 123 -- the first byte of an encrypted value, and of settings that are not encrypted

local asked, settings = cjson.decode(ARGV[1]), ARGV[2]

-- ---- 1. What stands

local name, version, life, change, standing, t0, t1, gn, g0, g1, waiting, ttl, user, pins, stale, edited, sealed, rich =
  unpack(redis.call('HMGET', conversation, 'id', 'v', 'life', 'change', 's', 't0', 't1', 'gn', 'g0', 'g1', 'open', 'ttl', 'user',
    'pins', 'stale', 'edited', 'sealed', 'rich'))
local exists, length = name ~= false, redis.call('LLEN', log)
version = tonumber(version or 0)
if exists and name ~= asked.name then return {'foreign'} end
if asked.repeats and life ~= asked.repeats then return {} end
-- A writer without a key must not add plain text to an encrypted conversation.
local is_encrypted = exists and (sealed or string.byte(standing) ~= PLAIN)
if is_encrypted and string.byte(settings) == PLAIN then return {'sealed'} end
local missing
if exists then missing = damage(length, pins, gn) else missing = remains() end
if not missing and length > 0 and redis.call('EXISTS', ids) == 0 then missing = 'ids' end
if missing then return {'damaged', missing} end

local function record_at(seq) return redis.call('GETRANGE', counts, (seq - 1) * RECORD, seq * RECORD - 1) end
local function details_at(seq) return redis.call('LINDEX', details, seq - 1) end
local function role_of(record) return string.byte(record, 2) end
local function digest_of(its_details) return string.sub(its_details, 4, 19) end

-- The seq of an entry that is stored. A rewind may leave ids behind whose message is gone, or is another one. So the id is
-- compared with the one in the details, a msgpack string after the digest.
local function stored_seq(id)
  local seq = tonumber(redis.call('HGET', ids, id) or nil)
  if not seq or seq > length then return nil end
  local head = #id < 32 and string.char(0xa0 + #id) or '\217' .. string.char(#id)
  return string.find(details_at(seq), head .. id, 20, true) == 20 and seq or nil
end

-- ---- 2. What each entry does

local plan, by_id, added = {}, {}, {} -- added: the steps that add a message, in turn
local replaced -- the step that replaces the entry in progress
local open = waiting and waiting ~= '' and cjson.decode(waiting) or nil -- the tool group that waits for results
local new_pins, pinned_groups = 0, {}

local function group_of(step)
  local calls = step.entry.makes
  return calls and {s = step.seq, x = #calls > 1 and 1 or 0, p = calls} or nil
end

-- The tokens that the entry in progress at `seq` has in the totals, if this step may replace it; else nil, and whether the
-- stored text is longer: then this is a late retry.
local function draft_for(step)
  local record = step.seq == length and record_at(length)
  if not record or string.byte(record, 4) < IN_PROGRESS then return nil end
  if step.entry.progress and struct.unpack('<I4', step.record, 13) < struct.unpack('<I4', record, 13) then return nil, true end
  local at, o200k, cl100k = string.match(redis.call('HGET', conversation, 'draft') or '', '^(%d+) (%d+) (%d+)$')
  return tonumber(at) == length and {tonumber(o200k), tonumber(cl100k)} or nil
end

-- Count the messages that a step adds to every window: a pinned member of a tool group pins its whole group.
local function count_pins(step)
  local group, always = step.group, step.entry.always
  if group and pinned_groups[group] == nil then
    pinned_groups[group] = group <= length and redis.call('HEXISTS', pinned, group) == 1
  end
  if group and pinned_groups[group] then
    new_pins = new_pins + 1
  elseif always then
    new_pins = new_pins + 1 + step.seq - (group or step.seq)
    pinned_groups[group or step.seq] = true
  end
end

-- A step whose id is stored, or is that of an `earlier` step. Gives the refusal, if any.
local function plan_known(index, step, earlier)
  local its_details = earlier and earlier.details or details_at(step.seq)
  local record = not earlier and record_at(step.seq)
  -- A redacted message stays redacted, whatever is sent again under its id: its old content is unknown.
  local is_known = asked.repeats or record and has(record, REDACTED)
  local is_other = digest_of(its_details) ~= digest_of(step.details) and not is_known
  local is_longer
  if is_other and not (earlier or replaced) and #added == 0 then step.draft, is_longer = draft_for(step) end
  if is_other and not step.draft then return {'conflict', index - 1, is_longer and 1 or 0} end
  step.parallel = earlier and earlier.parallel or record and has(record, PARALLEL)
  if step.draft then
    replaced, by_id[step.entry.id], open = step, step, group_of(step)
    count_pins(step)
  elseif earlier or its_details ~= step.details then
    step.duplicate = true -- equal details: this same call was sent again, because its reply was lost
  end
end

-- The call that a legacy function result answers stands right before it.
local function legacy_group(seq)
  local before = added[#added] or replaced
  local record = before and before.record or seq > 1 and record_at(seq - 1)
  return record and has(record, LEGACY_CALL) and seq - 1 or nil
end

-- A step that adds a message. Gives the refusal, if any.
local function plan_new(index, step)
  if asked.repeats then return {'undone'} end -- a rewind took it away
  if step.entry.answers then
    local place
    for at, call in ipairs(open and open.p or {}) do
      if call == step.entry.answers then place = at end
    end
    if not place then return {'orphan', index - 1} end
    table.remove(open.p, place)
    step.parallel, step.group = open.x == 1, open.s
  else
    open = group_of(step)
    if role_of(step.record) == FUNCTION then step.group = legacy_group(step.seq) end
  end
  count_pins(step)
  added[#added + 1], by_id[step.entry.id] = step, step
end

for index, entry in ipairs(asked.entries) do
  local earlier, refusal = by_id[entry.id], nil
  local seq = earlier and earlier.seq or exists and stored_seq(entry.id)
  local record, its_details, body, documents, notes = unpack(ARGV, 3 + (index - 1) * BLOBS, 2 + index * BLOBS)
  local step = {
    entry = entry, seq = seq or length + #added + 1, record = record, details = its_details, body = body, documents = documents,
    metadata = notes,
  }
  if seq then refusal = plan_known(index, step, earlier) else refusal = plan_new(index, step) end
  if refusal then return refusal end
  if new_pins > 0 and tonumber(pins or 0) + new_pins > asked.most_pinned then return {'pinned', index - 1} end
  plan[index] = step
end

local etag = exists and etag_of(version, life, change) or '0' -- the entity tag of a missing conversation
local function reply()
  local told = {'ok', version, exists and etag or '', standing or settings, edited or ''}
  for _, step in ipairs(plan) do
    told[#told + 1] = step.seq
    told[#told + 1] = step.duplicate and 1 or 0
    told[#told + 1] = step.parallel and 1 or 0
  end
  return told
end
if #added == 0 and not replaced then return reply() end
local is_expected = stands(asked.if_match, etag) and (exists or asked.if_match ~= '*')
if not is_expected or asked.before and asked.before ~= length then return {'moved', version} end
local is_usual = exists and not (replaced or stale or ttl or new_pins > 0)
local denial = denial_of({'RPUSH', 'HSET', 'APPEND'})
  or not is_usual and denial_of({'HDEL', 'HLEN', 'HSETNX', 'LSET', 'PEXPIRE', 'SETRANGE', 'UNLINK'})
if denial then return denial end

-- ---- 3. Write

local fields = {} -- the fields that change, each with its value: each one costs printing its number and looking it up
local function note(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
t0, t1, gn, g0, g1 = tonumber(t0 or 0), tonumber(t1 or 0), tonumber(gn or 0), tonumber(g0 or 0), tonumber(g1 or 0)
local new_user, new_rich, new_draft, is_grounded, is_sealed = user or '0', rich, nil, false, false

-- What a message is stored as: record, details, body.
local function message_at(seq)
  if seq <= length then return record_at(seq), details_at(seq), redis.call('LINDEX', log, seq - 1) end
  local step = added[seq - length]
  return step.record, step.details, step.body
end

-- Remove the words and vectors of message `seq` and of later ones from the index; they are indexed again later.
local function unindex(seq)
  cut_index(words, seq - 1)
  cut_index(vectors, seq - 1)
end

-- Count a step's tokens, and note what its message has.
local function count(step)
  local entry = step.entry
  local tokens = step.parallel and entry.parallel or entry.tokens
  t0, t1 = t0 + tokens[1], t1 + tokens[2]
  new_rich, is_sealed = richer(new_rich, step.record), is_sealed or string.byte(step.body) == SEALED
  if entry.progress then new_draft = step.seq .. ' ' .. tokens[1] .. ' ' .. tokens[2] end
  if step.metadata ~= '' then redis.call('HSET', metadata, step.seq, step.metadata) end
end

-- Write what a new message has beside the log. A pinned member of a tool group pins the group, which is near the lists' end.
local function write_beside(step)
  if step.parallel and not has(step.record, PARALLEL) then
    step.record = string.char(string.byte(step.record, 1) + PARALLEL) .. string.sub(step.record, 2)
  end
  if stale then
    redis.call('HDEL', grounding, step.seq)
    redis.call('HDEL', metadata, step.seq)
    unindex(step.seq)
  end
  if step.documents ~= '' then
    local tokens = step.entry.documents
    redis.call('HSET', grounding, step.seq, step.documents)
    gn, g0, g1, is_grounded = gn + 1, g0 + tokens[1], g1 + tokens[2], true
  end
  if step.entry.always or step.group and redis.call('HEXISTS', pinned, step.group) == 1 then
    for seq = step.group or step.seq, step.seq do redis.call('HSETNX', pinned, seq, pin_value(message_at(seq))) end
  end
  if role_of(step.record) == USER then new_user = step.seq end
  count(step)
end

if not exists then
  standing, ttl, life, pins = settings, asked.ttl, asked.change, '0'
  redis.call('UNLINK', words, vectors, done)
  redis.call('HSET', conversation, 's', settings, 'created', asked.now, 'pins', 0)
  if ttl then redis.call('HSET', conversation, 'ttl', ttl) end
  -- A conversation is there once it has an id, which is written last: a command before may be denied.
  note('id', asked.name)
end
if replaced then
  local seq, step = replaced.seq, replaced
  redis.call('LSET', log, seq - 1, step.body)
  redis.call('LSET', details, seq - 1, step.details)
  redis.call('SETRANGE', counts, (seq - 1) * RECORD, step.record)
  unindex(seq)
  redis.call('HDEL', metadata, seq)
  if step.entry.always then redis.call('HSET', pinned, seq, pin_value(step.record, step.details, step.body)) end
  t0, t1 = t0 - step.draft[1], t1 - step.draft[2]
  count(step)
  -- This value makes reads in several steps begin again. Checks for edits of earlier messages compare only the part before
  -- the tilde, which stays.
  edited = string.match(edited or '', '^[^~]*') .. '~' .. string.sub(asked.change, 1, 8)
  note('edited', edited)
end
for _, step in ipairs(added) do write_beside(step) end
local records = {}
for first = 1, #added, CHUNK do -- in pieces that `unpack` can hold
  local bodies, their_details, their_ids = {}, {}, {}
  for place = first, math.min(first + CHUNK - 1, #added) do
    local step, at = added[place], place - first + 1
    records[place], bodies[at], their_details[at] = step.record, step.body, step.details
    their_ids[2 * at - 1], their_ids[2 * at] = step.entry.id, step.seq
  end
  redis.call('RPUSH', log, unpack(bodies))
  redis.call('RPUSH', details, unpack(their_details))
  redis.call('HSET', ids, unpack(their_ids))
end
if #added > 0 then redis.call('APPEND', counts, table.concat(records)) end

note('t0', t0)
note('t1', t1)
if is_grounded then
  note('gn', gn)
  note('g0', g0)
  note('g1', g1)
end
local now_waiting = open and #open.p > 0 and cjson.encode(open) or ''
if now_waiting ~= (waiting or '') then note('open', now_waiting) end
if new_user ~= user then note('user', new_user) end
if new_rich ~= rich then note('rich', new_rich) end
if new_draft then note('draft', new_draft) end
if new_pins > 0 then note('pins', redis.call('HLEN', pinned)) end
if is_sealed then note('sealed', 1) end
exists, version = true, version + 1
etag = write_version(version, life, asked.change, asked.now, fields)
if stale then sweep(length + #added, tonumber(stale)) end
renew(ttl)
return reply()

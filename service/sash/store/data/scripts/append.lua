#!lua
-- Append entries, all or none, each id once. Creates the conversation when it is not there. An entry with the id of one that is
-- in progress replaces it where it stands, also behind other messages: its place and its part in the totals are known.
--
-- ARGV  1 name (tenant/conversation)   2 settings of a new conversation   3 now (ms)   4 entity tag that must stand, '*' or ''
--       5 random name of this write   6 limit of pinned messages
--       7 msgpack: before (messages that must be there), ttl (ms, of a new conversation), repeats (the life in which this
--         same request was done before, so that only its entries' places are asked for), reach (the tail that a window
--         needs, as in tail.lua), after (what a rewind before the append forgets: seq, the last to keep; etag, the state that
--         these figures were made for; less, unpinned, as in forgetting.lua; media, as in media.lua; open, the tool group that
--         then waits, JSON or ''; question, the newest user message then, or 0; seal and took, as in branches.lua), token (of a
--         request that is done but once), fresh (no entry may have an id that is stored, but for those that `after` forgets), set (of an agreement with a conversation that is there: settings, the
--         new ones; kept, those that windows had), said (the digests, joined, that the newest messages must have: role and
--         content), behind (how many messages stand before these)
--       then nine columns, each with a value for each entry: field of its id, tokens in o200k, in cl100k, record, details, body,
--         documents or '', metadata or '', and '' or msgpack of what few entries have: makes (ids of the tool calls that it
--         makes), answers (the call that it answers), links (of these calls), parallel (tokens when it answers one of several
--         calls), always (belongs in every window), documents (their tokens), progress (it is still being written),
--         unsent (windows leave it out), continues (it may only replace an entry in progress), compaction
--         (the form of the compaction that it is), media (as in media.lua), agents (names of its author and audience); tokens as {o200k, cl100k}
-- Gives {'ok', settings, etag, the name of the last write that was not an append or false, the tool group that waits for results
--        (JSON) or '', {the numbers in branches.lua} or false, {the objects that no message has any more, as in media.lua} or
--        false}, for each entry four times its seq, 1 more for a duplicate, 2 more for a parallel result, and the tail that
--        `reach` asks for, unless it cannot be read
--    or {'moved', version, etag} {'conflict', index, 1 if a longer text of this entry in progress is stored, 2 if its part in
--       the totals is unknown, 3 if it has another role, 4 if what it continues is not there,
--       5 if it has another author or audience, 6 if it is not fresh} {'orphan', index}
--       {'pinned', index} {'again'} when `after` was made for another state, or other words are there than `said` {'media'} when a medium is neither here nor given
--       {'foreign'} {'sealed'} {'damaged', part} {'undone'}, or {} when the life of `repeats` has ended
--
-- Three steps: read what stands, plan what each entry does, write. A script is not undone, so the first write comes after the
-- last refusal. The usual append has a short way (parts/usual.lua), which does what these steps do for it.
-- include conversation, damage, fields
local HEAD, COLUMNS = 7, 9
local entries = (#ARGV - HEAD) / COLUMNS
-- Where the columns of ARGV begin: entry n has its id at ARGV[ID + n].
local ID, O200K, CL100K, RECORDS, DETAILS = HEAD, HEAD + entries, HEAD + 2 * entries, HEAD + 3 * entries, HEAD + 4 * entries
local BODIES, DOCUMENTS, METADATA, REST = HEAD + 5 * entries, HEAD + 6 * entries, HEAD + 7 * entries, HEAD + 8 * entries
local LARGE = 8192 -- bytes of an entry's rest that only its media have
local PARALLEL, REDACTED, LEGACY_CALL, LATE = 8, 16, 32, 32 -- late: a result that is not behind its call, or not its first
-- Characters of a call's link. Among the entries' ids, a zero byte and a link lead to the call's message: its seq, and those of
-- up to seven older messages that made a call of the same id, which count again after a rewind.
local LINK = 8
local DIGEST = 8 -- bytes of a content's digest, the last of a record
local USER, TOOL, FUNCTION = 2, 4, 5
local SEALED, PLAIN = 1, 123 -- the first byte of an encrypted value, and of settings that are not encrypted

local settings, now, this_change = ARGV[2], ARGV[3], ARGV[5]
local asked = cmsgpack.unpack(ARGV[7])

-- ---- 1. What stands

local fields, with_tail -- with_tail adds the tail to the reply
if asked.reach then
-- include state, tail
  fields = read_fields('summary', 'ttl', 'open', 'stale', 'changes', 'followed')
  with_tail = function(told, now_fields, now_length)
    now_fields[4] = told[3]
    pcall(read_tail, told, now_fields, now_length, 0, asked.reach) -- what is written stays written, so an error must not be the reply
    return told
  end
else
  fields = read_fields('ttl', 'open', 'stale', 'changes', 'followed')
end
local name, version, life, change, standing, t0, t1, gn, user, edited, sealed, rich, pins, compactions = unpack(fields)
local ttl, waiting, stale, changes, followed = unpack(fields, #fields - 4)
local exists, length = name ~= false, redis.call('LLEN', log)
version = tonumber(version or 0)
if exists and name ~= ARGV[1] then return {'foreign'} end
if asked.repeats and life ~= asked.repeats then return {} end
-- A writer without a key must not add plain text to an encrypted conversation.
local is_encrypted = exists and (sealed or string.byte(standing) ~= PLAIN)
if is_encrypted and string.byte(settings) == PLAIN then return {'sealed'} end
local missing
if exists then
  missing = damage(length, pins, gn)
else
-- include remains
  missing = left
end
if not missing and length > 0 and redis.call('EXISTS', ids) == 0 then missing = 'ids' end
if missing then return {'damaged', missing} end
local etag = exists and etag_of(version, life, change) or '0' -- the entity tag of a missing conversation
local is_expected = (ARGV[4] == '' or ARGV[4] == etag or ARGV[4] == '*' and exists) and (asked.before or length) == length

if asked.said then -- the usual agreement, which adds to a chat that is the same: what the newest messages say is told by digests
  local count, tail = #asked.said / DIGEST, ''
  if length < count or asked.behind and length ~= asked.behind + count then return {'again'} end
  if count > 0 then tail = redis.call('GETRANGE', counts, (length - count) * RECORD, -1) end
  for place = 1, count do
    local said = string.sub(tail, place * RECORD - DIGEST + 1, place * RECORD)
    if said ~= string.sub(asked.said, (place - 1) * DIGEST + 1, place * DIGEST) then return {'again'} end
  end
  local heads = redis.call('HGET', branches, 'heads') or '' -- one that hangs here may go on as the list does
  for at = 17, #heads, 28 do
    local parent, behind = struct.unpack('<I4I4', heads, at)
    if parent == 0 and behind >= length then return {'again'} end
  end
end

-- ---- 2 and 3, the short way
-- include usual

-- ---- 2, the long way: any entries
-- include records, pins, versions, writing, blocks, media

local function record_at(seq) return redis.call('GETRANGE', counts, (seq - 1) * RECORD, seq * RECORD - 1) end
local function details_at(seq) return redis.call('LINDEX', details, seq - 1) end
local function digest_of(its_details) return string.sub(its_details, 4, 11) end
local function role_of(record) return string.byte(record, 2) end

-- The id in details: a msgpack string of up to 31 bytes, whose head has its length, or else a longer string, or bytes.
local function id_of(its_details)
  local head, size = string.byte(its_details, 12, 13)
  return string.sub(its_details, 12, head < 192 and head - 148 or 13 + size)
end

-- The seq of an entry that is stored. A rewind may leave ids behind whose message is gone, or is another one. So the id is
-- compared with the one in the details.
local function stored_seq(id, its_details)
  local seq = tonumber(redis.call('HGET', ids, id) or nil)
  if not seq or seq > length then return nil end
  return id_of(details_at(seq)) == id_of(its_details) and seq or nil
end

-- With a rewind before the append, all below sees the history as the rewind leaves it, and nothing is written before the last
-- refusal.
local after, whole_length, unpinned, whole_compactions = asked.after, length, {}, compactions

-- Whether the entries are stored right behind the rewind's place, or before it: then the request was done, whatever came after
-- them since.
local function is_repeated()
  local place, seen = after.seq, {}
  for entry = 1, entries do
    local id, its_details = ARGV[ID + entry], ARGV[DETAILS + entry]
    local seq = not seen[id] and stored_seq(id, its_details)
    if not (seq or seen[id]) then return false end
    if seq then
      local is_same = digest_of(details_at(seq)) == digest_of(its_details) or has(record_at(seq), REDACTED)
      if seq > after.seq then place = place + 1 end
      if not is_same or seq > after.seq and seq ~= place then return false end
    end
    seen[id] = true
  end
  return true
end

if after and not asked.fresh and is_repeated() then after = nil end
if (after or asked.fresh) and not is_expected then return {'moved', version, etag} end
if after and etag ~= after.etag then return {'again'} end
if not exists then after = nil end -- there is nothing to forget
if after then
  length, waiting, user = after.seq, after.open, after.question
  t0, t1, gn = (t0 or 0) - after.less[1], (t1 or 0) - after.less[2], (gn or 0) - after.less[3]
-- include compactions
  local kept = compactions_at(compactions, length)
  compactions = kept ~= '' and kept
  for _, seq in ipairs(after.unpinned) do unpinned[seq] = true end
  for _, seq in ipairs(redis.call('HKEYS', pinned)) do
    if tonumber(seq) > length or unpinned[tonumber(seq)] then pins = (pins or 0) - 1 end
  end
end
local function in_every_window(seq) return not unpinned[seq] and redis.call('HEXISTS', pinned, seq) == 1 end

local records, bodies, new_details, new_ids = {}, {}, {}, {} -- of the new messages; new_ids: each id, then its seq
local sum0, sum1, question, now_rich, now_sealed = t0 or 0, t1 or 0, user or '0', rich, sealed
local plan, added, replaced = {}, {}, nil -- steps: all, those that add a message, the one that replaces an entry in progress
-- include drafts, calls, planning

local by_id = {}
for entry = 1, entries do
  local id, rest = ARGV[ID + entry], ARGV[REST + entry]
  local earlier, refusal = by_id[id], nil
  local seq = earlier and earlier.seq or exists and stored_seq(id, ARGV[DETAILS + entry])
  if seq and asked.fresh then return {'conflict', entry - 1, 6} end
  local step = {
    id = id, seq = seq or length + #added + 1, o200k = ARGV[O200K + entry], cl100k = ARGV[CL100K + entry],
    record = ARGV[RECORDS + entry], details = ARGV[DETAILS + entry], body = ARGV[BODIES + entry],
    documents = ARGV[DOCUMENTS + entry], metadata = ARGV[METADATA + entry], rest = rest ~= '' and cmsgpack.unpack(rest) or {},
  }
  if seq then refusal = plan_known(entry, step, earlier) else refusal = plan_new(entry, step) end
  if refusal then return refusal end
  if not seq or step.draft then by_id[id] = step end
  if not step.duplicate and lacks_media(step.rest) then return {'media'} end
  if new_pins > 0 and tonumber(pins or 0) + new_pins > tonumber(ARGV[6]) then return {'pinned', entry - 1} end
  plan[entry] = step
end

local now_waiting = waiting or ''
local branched, freeing -- the branch of what is forgotten, and those that are dropped; media to release
local function reply()
  local told = {'ok', standing or settings, etag ~= '0' and etag or '', edited, now_waiting, branched or false, freed[1] and freed or false}
  for _, step in ipairs(plan) do told[#told + 1] = 4 * step.seq + (step.duplicate and 1 or 0) + (step.parallel and 2 or 0) end
  if not with_tail then return told end
  return with_tail(told, read_fields('summary'), redis.call('LLEN', log))
end
for _, step in ipairs(plan) do
  if step.duplicate then restore_media(step.rest) end
end
if #added == 0 and not (replaced or asked.set or after and length < whole_length) then return reply() end
if not is_expected then return {'moved', version, etag} end
local is_plain = exists and not (replaced or stale or ttl or new_pins > 0 or after or asked.token)
local denial = denial_of({'RPUSH', 'HSET', 'APPEND'})
  or not is_plain and denial_of({'HDEL', 'HLEN', 'HSETNX', 'LSET', 'PEXPIRE', 'SETRANGE', 'UNLINK'})
  or after and denial_of({'GETRANGE', 'HINCRBY', 'HKEYS', 'HMGET', 'LTRIM', 'SET'})
  or asked.token and denial_of({'HRANDFIELD'})
if denial then return denial end

-- ---- 3. Write: forget what comes after `after`, then what is beside the new messages, then these

local without_summary = false
if after then
-- include branches
  branched, freeing = seal(length, whole_length, after, now, this_change)
end
if after and length < whole_length then
-- include forgetting, compactions
  withdraw_compactions(whole_compactions, length)
  local left
  left, without_summary = forget(length, whole_length, stale, after.less, after.unpinned)
  stale, edited = left > 0 and left, this_change
  redis.call('HSET', conversation, 'edited', edited, 'user', user, 'open', waiting)
end

-- What a message is stored as: record, details, body.
local function message_at(seq)
  if seq <= length then return record_at(seq), details_at(seq), redis.call('LINDEX', log, seq - 1) end
  return records[seq - length], new_details[seq - length], bodies[seq - length]
end

-- Remove the words and vectors of message `seq` and of later ones from the index; they are indexed again later.
local function unindex(seq)
  cut_index(words, seq - 1)
  cut_index(vectors, seq - 1)
end

-- Write what a message has that is new, or replaces the entry in progress.
local function write_notes(step)
  if step.rest.progress then drafts_now()[step.seq] = {step.o200k, step.cl100k, names_of(step.rest)} end
  if step.metadata ~= '' then redis.call('HSET', metadata, step.seq, step.metadata) end
  if step.rest.agents then
-- include agents
    local agents = redis.call('HGET', conversation, 'agents') or ''
    redis.call('HSET', conversation, 'agents', with_agents(agents, step.rest.agents, version + 1))
  end
end

local grounded, g0, g1 = 0, 0, 0 -- new messages with documents, and the tokens of these
-- Write what a new message has beside the log. A pinned member of a tool group pins the group, which is near the lists' end.
local function write_beside(step)
  if stale then
    redis.call('HDEL', grounding, step.seq)
    redis.call('HDEL', metadata, step.seq)
    unindex(step.seq)
  end
  if step.documents ~= '' then
    redis.call('HSET', grounding, step.seq, step.documents)
    grounded, g0, g1 = grounded + 1, g0 + step.rest.documents[1], g1 + step.rest.documents[2]
  end
  if step.rest.always or step.group and redis.call('HEXISTS', pinned, step.group) == 1 then
    for seq = step.group or step.seq, step.seq do redis.call('HSETNX', pinned, seq, pin_value(message_at(seq))) end
  end
  hold_media(step.rest)
  write_notes(step)
end

-- The fields that change, each with its value: each one costs printing its number and looking it up.
local changed = {}
local function note(field, value)
  local last = #changed
  changed[last + 1], changed[last + 2] = field, value
end

if not exists then
  standing, ttl, life, pins = settings, asked.ttl, this_change, '0'
  redis.call('UNLINK', words, vectors, media, branches, done)
  redis.call('HSET', conversation, 's', settings, 'life', life, 'created', now, 'pins', 0)
  if ttl then redis.call('HSET', conversation, 'ttl', ttl) end
  -- A conversation is there once it has an id, which is written last: a command before may be denied.
  note('id', ARGV[1])
end
if asked.set then
-- include earlier
  local kept = redis.call('HGET', conversation, 'settings_before')
  note('settings_before', with_earlier(kept, version, 0, asked.set.kept))
  note('s', asked.set.settings)
  standing = asked.set.settings
end
if replaced then
-- include summary
  local seq, step = replaced.seq, replaced
  hold_media(step.rest) -- first: a medium that both have stays
  for each in string.gmatch(step.draft[3], string.rep('%x', 2 * NAME)) do release_all(each .. ' 1') end
  redis.call('LSET', log, seq - 1, step.body)
  redis.call('LSET', details, seq - 1, step.details)
  redis.call('SETRANGE', counts, (seq - 1) * RECORD, step.record)
  unindex(seq)
  redis.call('HDEL', metadata, seq)
  if step.rest.always then redis.call('HSET', pinned, seq, pin_value(step.record, step.details, step.body)) end
  count(step.record, step.body, step.o200k - step.draft[1], step.cl100k - step.draft[2])
  write_notes(step)
  if seq == length then
    -- This value makes reads in several steps begin again. Checks for edits of earlier messages compare only the part before
    -- the tilde, which stays.
    edited = string.match(edited or '', '^[^~]*') .. '~' .. string.sub(this_change, 1, 8)
  else
    edited = this_change
    redis.call('UNLINK', columns)
    without_summary = forget_summary(seq - 1) or without_summary -- one that does not know its end
  end
  note('edited', edited)
end
for _, step in ipairs(added) do write_beside(step) end
if after then release_all(freeing) end -- last: a medium that a new message has stays
if replaced and not replaced.rest.progress then drafts_now()[replaced.seq] = nil end
local draft = drafts_field(length + #added)
if draft then note('draft', draft) end
local forgot = whole_length - length
local kinds = (#added > 0 and DID_APPEND or 0) + (replaced and DID_REPLACE or 0) + (forgot > 0 and DID_REWIND or 0)
  + (without_summary and DID_SUMMARIZE or 0) + (asked.set and DID_SET or 0)
if kinds > DID_APPEND or #added > 1 then -- one message more is what a version is where nothing else is noted
  local about = replaced and replaced.seq or 0
  note('changes', with_change(changes, kinds, version + 1, length + #added, about, #added, forgot))
  if forgot > 0 or asked.set then note('change_times', with_time(redis.call('HGET', conversation, 'change_times'), version + 1, now)) end
end
if grounded > 0 then
  local before = redis.call('HMGET', conversation, 'g0', 'g1')
  note('gn', (gn or 0) + grounded)
  note('g0', (before[1] or 0) + g0)
  note('g1', (before[2] or 0) + g1)
end
if new_pins > 0 or after then note('pins', redis.call('HLEN', pinned)) end

for first = 1, #records, CHUNK do -- in pieces that `unpack` can hold
  local last = math.min(first + CHUNK - 1, #records)
  redis.call('RPUSH', log, unpack(bodies, first, last))
  redis.call('RPUSH', details, unpack(new_details, first, last))
end
for first = 1, #new_ids, 2 * CHUNK do
  redis.call('HSET', ids, unpack(new_ids, first, math.min(first + 2 * CHUNK - 1, #new_ids)))
end
if #records > 0 then redis.call('APPEND', counts, table.concat(records)) end
now_waiting = open and #open.p > 0 and cjson.encode(open) or ''
note('t0', sum0)
note('t1', sum1)
if now_waiting ~= (waiting or '') then note('open', now_waiting) end
if question ~= user then note('user', question) end
if now_rich ~= rich then note('rich', now_rich) end
if now_sealed ~= sealed then note('sealed', now_sealed) end
if now_compactions ~= compactions then note('compactions', now_compactions) end
version = version + 1
etag = write_version(version, life, this_change, now, changed)
if stale then sweep(length + #added, tonumber(stale)) end
if asked.token then mark_done(asked.token, now, ttl) end
renew(ttl)
wake(followed, now, kinds == DID_REPLACE and replaced.rest.progress and 'text')
return reply()

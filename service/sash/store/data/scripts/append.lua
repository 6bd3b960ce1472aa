#!lua
-- Append entries, all or none, each id once. Creates the conversation when it is not there. An entry with the id of one that is
-- in progress replaces it where it stands, also behind other messages: its place and its part in the totals are known.
--
-- ARGV  1 name (tenant/conversation)   2 settings of a new conversation   3 now (ms)   4 entity tag that must stand, '*' or ''
--       5 random name of this write   6 limit of pinned messages
--       7 '' or msgpack: before (messages that must be there), ttl (ms, of a new conversation), repeats (the life in which this
--         same request was done before, so that only its entries' places are asked for), reach (of the tail that a window
--         needs, as in tail.lua), after (what a rewind before the append forgets: seq, the last to keep; etag, the state that
--         these figures were made for; less, unpinned, as in forgetting.lua; media, as in media.lua; open, the tool group that then waits, JSON or '';
--         question, the newest user message then, or 0)
--       then for each entry: field of its id, tokens in o200k, in cl100k, record, details, body, documents or '', metadata or '', and '' or
--         msgpack of what few entries have: makes (ids of the tool calls that it makes), answers (the call that it answers),
--         links (of these calls), parallel (tokens when it answers one of several calls), always (belongs in every window),
--         documents (their tokens), progress (it is still being written), compaction (the form of the compaction that it is),
--         media (as in media.lua); tokens as {o200k, cl100k}
-- Gives {'ok', version, etag, settings, edited, the tool group that waits for results (JSON) or '', then for each entry: seq,
--        1 for a duplicate, 1 for a parallel result}; with `reach`, {this reply, the tail, or {} where it cannot be read}
--    or {'moved', version, etag} {'conflict', index, 1 if a longer text of this entry in progress is stored, 2 if its part in
--       the totals is unknown} {'orphan', index} {'pinned', index} {'again'} when `after` was made for another state {'media'}
--       when a medium is neither here nor given {'foreign'} {'sealed'} {'damaged', part} {'undone'}, or {} when the life of
--       `repeats` has ended
--
-- Three steps: read what stands, plan what each entry does, write. A script is not undone, so the first write comes after the
-- last refusal. The usual append has a short way without functions, because each call makes those that it passes anew.
-- include conversation
local ENTRY, WIDTH = 8, 9 -- the place of the first entry in ARGV, and each entry's number of places
local LARGE = 8192 -- bytes of an entry's rest that only its media have
local PARALLEL, REDACTED, LEGACY_CALL, LATE = 8, 16, 32, 32 -- late: a result that is not behind its call, or not its first
-- Characters of a call's link. Among the entries' ids, a zero byte and a link lead to the call's message: its seq, and those of
-- up to seven older messages that made a call of the same id, which count again after a rewind.
local LINK, MAKERS = 8, 8
local DRAFTS = 32 -- entries in progress whose part in the totals is kept, the newest ones
local USER, TOOL, FUNCTION, IN_PROGRESS = 2, 4, 5, 128 -- in progress: added to a record's byte 4
local SEALED, PLAIN = 1, 123 -- the first byte of an encrypted value, and of settings that are not encrypted

local settings, now, this_change = ARGV[2], ARGV[3], ARGV[5]
local asked = ARGV[7] ~= '' and cmsgpack.unpack(ARGV[7]) or {}
local with_tail -- adds the tail to the reply
if asked.reach then
-- include pins, tail
  with_tail = function(told)
    local is_read, tail = pcall(function() return read_tail(read_fields(), redis.call('LLEN', log), asked.reach) end)
    return {told, is_read and tail or {}} -- what is written stays written, so an error here must not be the reply
  end
end

-- ---- 1. What stands

local name, version, life, change, standing, t0, t1, gn, waiting, ttl, user, pins, stale, edited, sealed, rich, compactions =
  unpack(redis.call('HMGET', conversation, 'id', 'v', 'life', 'change', 's', 't0', 't1', 'gn', 'open', 'ttl', 'user', 'pins',
    'stale', 'edited', 'sealed', 'rich', 'compactions'))
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

-- ---- 2 and 3, the short way: entries with new ids, without documents and metadata, for a conversation that does not expire.
-- None of them is in progress, or in every window. All else is left to the long way, before anything is written

local has_pins, may = pins and pins ~= '0', redis.acl_check_cmd -- servers of other makes may not have `may`
local is_usual = exists and is_expected and not (ttl or stale or asked.repeats or asked.after) and #ARGV < ENTRY + CHUNK * WIDTH
  and (not may or may('RPUSH', log) and may('HSET', log) and may('APPEND', log))
if is_usual then
  local records, bodies, their_details, their_ids, seqs = {}, {}, {}, {}, {}
  local seq, sum0, sum1, question, now_waiting = length, t0 or 0, t1 or 0, user or '0', waiting
  local is_rich, is_sealed, short = rich, sealed, string.sub(this_change, 1, 8)
  local told = {'ok', version + 1, etag_of(version + 1, life, short), standing, edited or '', ''}
  for at = ENTRY, #ARGV, WIDTH do
    local id, record, body, rest, parallel = ARGV[at], ARGV[at + 3], ARGV[at + 5], ARGV[at + 8], 0
    local o200k, cl100k, flags, role = ARGV[at + 1], ARGV[at + 2], string.byte(record, 1, 2)
    is_usual = not (#rest > LARGE or seqs[id] or ARGV[at + 6] ~= '' or ARGV[at + 7] ~= '' or has_pins and role == FUNCTION)
      and not redis.call('HGET', ids, id)
    rest = rest ~= '' and cmsgpack.unpack(rest)
    if not is_usual or rest and (rest.always or rest.progress or rest.compaction or rest.media) then
      is_usual = false
      break
    end
    seq = seq + 1
    if rest and rest.answers then
      local open = now_waiting and now_waiting ~= '' and cjson.decode(now_waiting) or {s = 0, p = {}}
      local place = 1
      while open.p[place] and open.p[place] ~= rest.answers do place = place + 1 end
      is_usual = table.remove(open.p, place) and not (has_pins and redis.call('HEXISTS', pinned, open.s) == 1)
      if not is_usual then break end -- a late result, an orphan, or a result of a pinned call
      now_waiting = #open.p > 0 and cjson.encode(open) or ''
      if open.x == 1 then
        parallel, o200k, cl100k = 1, rest.parallel[1], rest.parallel[2]
        if math.floor(flags / PARALLEL) % 2 == 0 then record = string.char(flags + PARALLEL) .. string.sub(record, 2) end
      end
    else
      local calls = rest and rest.makes
      now_waiting = calls and cjson.encode({s = seq, x = #calls > 1 and 1 or 0, p = calls}) or ''
      for first = 1, calls and #rest.links or 0, LINK do
        local last, field = #their_ids, '\0' .. string.sub(rest.links, first, first + LINK - 1)
        is_usual = is_usual and not (seqs[field] or redis.call('HGET', ids, field))
        their_ids[last + 1], their_ids[last + 2], seqs[field] = field, seq, seq
      end
      if not is_usual then break end -- an id that was used before
    end
    if role == USER then question = seq end
    if flags >= RICH then is_rich = (is_rich == '1' or flags % MIXED >= RICH) and '1' or 'scripts' end
    if string.byte(body) == SEALED then is_sealed = '1' end
    sum0, sum1, seqs[id] = sum0 + o200k, sum1 + cl100k, seq
    local place, reply = #records + 1, #told
    records[place], their_details[place], bodies[place] = record, ARGV[at + 4], body
    their_ids[#their_ids + 1] = id
    their_ids[#their_ids + 1] = seq
    told[reply + 1], told[reply + 2], told[reply + 3] = seq, 0, parallel
  end
  if is_usual and #their_ids <= 2 * CHUNK then -- more are not written at once
    told[6] = now_waiting or ''
    redis.call('RPUSH', log, unpack(bodies))
    redis.call('RPUSH', details, unpack(their_details))
    redis.call('HSET', ids, unpack(their_ids))
    redis.call('APPEND', counts, table.concat(records))
    local changed = {}
    if question ~= user then changed[1], changed[2] = 'user', question end
    if now_waiting ~= (waiting or '') then changed[#changed + 1], changed[#changed + 2] = 'open', now_waiting end
    if is_rich ~= rich then changed[#changed + 1], changed[#changed + 2] = 'rich', is_rich end
    if is_sealed ~= sealed then changed[#changed + 1], changed[#changed + 2] = 'sealed', is_sealed end
    redis.call('HSET', conversation, 'v', version + 1, 'change', short, 'updated', now, 't0', sum0, 't1', sum1, unpack(changed))
    return with_tail and with_tail(told) or told
  end
end

-- ---- 2, the long way: any entries
-- include records, pins, versions, writing, blocks, media

local function record_at(seq) return redis.call('GETRANGE', counts, (seq - 1) * RECORD, seq * RECORD - 1) end
local function details_at(seq) return redis.call('LINDEX', details, seq - 1) end
local function digest_of(its_details) return string.sub(its_details, 4, 11) end

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
  for at = ENTRY, #ARGV, WIDTH do
    local id = ARGV[at]
    local seq = not seen[id] and stored_seq(id, ARGV[at + 4])
    if not (seq or seen[id]) then return false end
    if seq then
      local is_same = digest_of(details_at(seq)) == digest_of(ARGV[at + 4]) or has(record_at(seq), REDACTED)
      if seq > after.seq then place = place + 1 end
      if not is_same or seq > after.seq and seq ~= place then return false end
    end
    seen[id] = true
  end
  return true
end

if after and is_repeated() then after = nil end
if after then
  if not is_expected then return {'moved', version or 0, etag} end
  if etag ~= after.etag then return {'again'} end
end
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

local records, bodies, their_details, their_ids = {}, {}, {}, {} -- of the new messages; after each id its seq
local told = {'ok', version, exists and etag or '', standing or settings, edited or '', waiting or ''} -- the reply
local open = waiting and waiting ~= '' and cjson.decode(waiting) or nil -- the tool group that waits for results
local new_t0, new_t1, new_user, new_rich, is_sealed = t0 or 0, t1 or 0, user or '0', rich, sealed

local function tell(seq, is_duplicate, is_parallel)
  local last = #told
  told[last + 1], told[last + 2], told[last + 3] = seq, is_duplicate and 1 or 0, is_parallel and 1 or 0
end

-- Take a call out of the open group. Gives whether it was there.
local function take(call)
  for place, each in ipairs(open and open.p or {}) do
    if each == call then return table.remove(open.p, place) ~= nil end
  end
  return false
end

local function group_of(seq, calls) return calls and {s = seq, x = #calls > 1 and 1 or 0, p = calls} or nil end

local makers = {} -- seqs of new messages, by the links of the calls that they make; then those of older ones, in one string
-- Note the calls that a message makes.
local function note_calls(seq, rest)
  for first = 1, rest.makes and #rest.links or 0, LINK do
    local link, seqs = string.sub(rest.links, first, first + LINK - 1), {seq}
    for other in string.gmatch(makers[link] or redis.call('HGET', ids, '\0' .. link) or '', '%d+') do
      if tonumber(other) ~= seq then seqs[#seqs + 1] = tonumber(other) end
    end
    table.sort(seqs, function(one, other) return one > other end)
    makers[link] = table.concat(seqs, ' ', 1, math.min(#seqs, MAKERS))
    their_ids[#their_ids + 1] = '\0' .. link
    their_ids[#their_ids + 1] = makers[link]
  end
end

local now_compactions = compactions
-- Note a compaction, which stands for all messages before it in its form. A rewind before it needs what the field was.
local function note_compaction(seq, form)
  local kept = now_compactions or ''
  their_ids[#their_ids + 1] = '\0compaction:' .. seq
  their_ids[#their_ids + 1] = seq .. ' ' .. kept
  local others = string.gsub(kept, ' ?' .. form .. ' %d+', '')
  now_compactions = string.gsub(others .. ' ' .. form .. ' ' .. seq, '^ ', '')
end

-- Count a message's tokens, and note what its record and body tell.
local function count(record, body, o200k, cl100k)
  new_t0, new_t1 = new_t0 + o200k, new_t1 + cl100k
  new_rich, is_sealed = richer(new_rich, record), is_sealed or string.byte(body) == SEALED and '1'
end

-- Add the message of the entry at this place of ARGV. Its `tokens` are given where its call is one of several.
local function add(at, seq, tokens, is_late)
  local record, body, place = ARGV[at + 3], ARGV[at + 5], #records + 1
  local flags = (tokens and not has(record, PARALLEL) and PARALLEL or 0) + (is_late and not has(record, LATE) and LATE or 0)
  if flags > 0 then record = string.char(string.byte(record) + flags) .. string.sub(record, 2) end
  records[place], their_details[place], bodies[place] = record, ARGV[at + 4], body
  their_ids[#their_ids + 1] = ARGV[at]
  their_ids[#their_ids + 1] = seq
  if string.byte(record, 2) == USER then new_user = seq end
  if tokens then count(record, body, tokens[1], tokens[2]) else count(record, body, ARGV[at + 1], ARGV[at + 2]) end
end

-- The fields that change, each with its value: each one costs printing its number and looking it up.
local fields = {}
local function note(field, value)
  local last = #fields
  fields[last + 1], fields[last + 2] = field, value
end

-- Write the new messages and the fields; gives the reply.
local function write()
  for first = 1, #records, CHUNK do -- in pieces that `unpack` can hold
    local last = math.min(first + CHUNK - 1, #records)
    redis.call('RPUSH', log, unpack(bodies, first, last))
    redis.call('RPUSH', details, unpack(their_details, first, last))
  end
  for first = 1, #their_ids, 2 * CHUNK do
    redis.call('HSET', ids, unpack(their_ids, first, math.min(first + 2 * CHUNK - 1, #their_ids)))
  end
  if #records > 0 then redis.call('APPEND', counts, table.concat(records)) end
  note('t0', new_t0)
  note('t1', new_t1)
  local now_waiting = open and #open.p > 0 and cjson.encode(open) or ''
  told[6] = now_waiting
  if now_waiting ~= (waiting or '') then note('open', now_waiting) end
  if new_user ~= user then note('user', new_user) end
  if new_rich ~= rich then note('rich', new_rich) end
  if is_sealed ~= sealed then note('sealed', is_sealed) end
  if now_compactions ~= compactions then note('compactions', now_compactions) end
  told[2], told[3] = version + 1, write_version(version + 1, life, this_change, now, fields)
  return told
end

local plan, by_id, added = {}, {}, {} -- added: the steps that add a message, in turn
local replaced -- the step that replaces the entry in progress
local new_pins, pinned_groups = 0, {}

local function role_of(record) return string.byte(record, 2) end

-- The seq of the newest message that makes the call with this link; nil where there is none. A rewind may leave links behind.
local function maker_of(link)
  if makers[link] then return tonumber(string.match(makers[link], '%d+')) end
  for each in string.gmatch(redis.call('HGET', ids, '\0' .. link) or '', '%d+') do
    local seq = tonumber(each)
    if seq <= length and string.find(details_at(seq), link, 12, true) then return seq end
  end
end

local drafts -- what entries in progress have in the totals, by their seqs, once it is read
local function drafts_now()
  if not drafts then
    drafts = {}
    for seq, o200k, cl100k, names in string.gmatch(redis.call('HGET', conversation, 'draft') or '', '(%d+) (%d+) (%d+)m?(%x*)') do
      drafts[tonumber(seq)] = {tonumber(o200k), tonumber(cl100k), names}
    end
  end
  return drafts
end

-- The tokens that the entry in progress at `seq` has in the totals, and its media, if this step may replace it; else nil, and
-- the reason: 1
-- where the stored text is longer, so that this is a late retry, 2 where these tokens are unknown.
local function draft_for(step)
  local record = step.seq <= length and record_at(step.seq)
  if not record or string.byte(record, 4) < IN_PROGRESS then return nil end
  if step.rest.progress and struct.unpack('<I4', step.record, 13) < struct.unpack('<I4', record, 13) then return nil, 1 end
  return drafts_now()[step.seq], 2
end

-- Count the messages that a step adds to every window: a pinned member of a tool group pins its whole group.
local function count_pins(step)
  local group, always = step.group, step.rest.always
  if group and pinned_groups[group] == nil then
    pinned_groups[group] = group <= length and in_every_window(group)
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
  local why
  if is_other and not (earlier or replaced) and #added == 0 then step.draft, why = draft_for(step) end
  if is_other and not step.draft then return {'conflict', index - 1, why or 0} end
  step.parallel = earlier and earlier.parallel or record and has(record, PARALLEL)
  if step.draft then
    replaced, by_id[step.id] = step, step
    if step.seq == length then open = group_of(step.seq, step.rest.makes) end
    note_calls(step.seq, step.rest)
    if step.rest.compaction and (step.seq == length or not compactions) then
      note_compaction(step.seq, step.rest.compaction)
    end
    count_pins(step)
  elseif earlier or its_details ~= step.details then
    step.duplicate = true -- equal details: this same call was sent again, because its reply was lost
  end
end

-- The call that a legacy function result answers stands right before it.
local function legacy_group(seq)
  local standing = replaced and replaced.seq == seq - 1 and replaced.record
  local before = records[#records] or standing or seq > 1 and record_at(seq - 1)
  return before and has(before, LEGACY_CALL) and role_of(before) ~= TOOL and seq - 1 or nil
end

-- The record of a message that is stored, or was planned before.
local function standing_record(seq)
  if replaced and replaced.seq == seq then return replaced.record end
  return seq > length and records[seq - length] or record_at(seq)
end

-- A step that adds a message. Gives the refusal, if any.
local function plan_new(index, step)
  if asked.repeats then return {'undone'} end -- a rewind took it away
  if step.rest.answers and take(step.rest.answers) then
    step.parallel, step.group = open.x == 1, open.s
  elseif step.rest.answers then
    local maker = maker_of(step.rest.links)
    if not maker then return {'orphan', index - 1} end
    step.late, step.parallel = true, string.byte(standing_record(maker), 3) > 1
    local is_pinned = pinned_groups[maker] or maker <= length and in_every_window(maker)
    step.rest.always = step.rest.always or is_pinned
  else
    open = group_of(step.seq, step.rest.makes)
    note_calls(step.seq, step.rest)
    if step.rest.compaction then note_compaction(step.seq, step.rest.compaction) end
    if role_of(step.record) == FUNCTION then step.group = legacy_group(step.seq) end
  end
  count_pins(step)
  add(step.at, step.seq, step.parallel and step.rest.parallel, step.late)
  added[#added + 1], by_id[step.id] = step, step
end

for at = ENTRY, #ARGV, WIDTH do
  local index, id, rest = #plan + 1, ARGV[at], ARGV[at + 8]
  local earlier, refusal = by_id[id], nil
  local seq = earlier and earlier.seq or exists and stored_seq(id, ARGV[at + 4])
  local step = {
    at = at, id = id, seq = seq or length + #added + 1, record = ARGV[at + 3], details = ARGV[at + 4], body = ARGV[at + 5],
    documents = ARGV[at + 6], metadata = ARGV[at + 7], rest = rest ~= '' and cmsgpack.unpack(rest) or {},
  }
  if seq then refusal = plan_known(index, step, earlier) else refusal = plan_new(index, step) end
  if refusal then return refusal end
  if not step.duplicate and lacks_media(step.rest) then return {'media'} end
  if new_pins > 0 and tonumber(pins or 0) + new_pins > tonumber(ARGV[6]) then return {'pinned', index - 1} end
  plan[index] = step
end
for _, step in ipairs(plan) do tell(step.seq, step.duplicate, step.parallel) end
if #added == 0 and not replaced then return with_tail and with_tail(told) or told end
if not is_expected then return {'moved', version, etag} end
local is_plain = exists and not (replaced or stale or ttl or new_pins > 0 or after)
local denial = denial_of({'RPUSH', 'HSET', 'APPEND'})
  or not is_plain and denial_of({'HDEL', 'HLEN', 'HSETNX', 'LSET', 'PEXPIRE', 'SETRANGE', 'UNLINK'})
  or after and denial_of({'GETRANGE', 'HINCRBY', 'HKEYS', 'LTRIM', 'SET'})
if denial then return denial end

-- ---- 3. Write: forget what comes after `after`, then what is beside the new messages, then these

if after and length < whole_length then
-- include forgetting, compactions
  withdraw_compactions(whole_compactions, length)
  local left = forget(length, whole_length, stale, after.less, after.unpinned)
  stale, edited, told[5] = left > 0 and left, this_change, this_change
  redis.call('HSET', conversation, 'edited', edited, 'user', user, 'open', waiting)
end

-- What a message is stored as: record, details, body.
local function message_at(seq)
  if seq <= length then return record_at(seq), details_at(seq), redis.call('LINDEX', log, seq - 1) end
  return records[seq - length], their_details[seq - length], bodies[seq - length]
end

-- Remove the words and vectors of message `seq` and of later ones from the index; they are indexed again later.
local function unindex(seq)
  cut_index(words, seq - 1)
  cut_index(vectors, seq - 1)
end

-- Write what a message has that is new, or replaces the entry in progress.
local function write_notes(step)
  if step.rest.progress then drafts_now()[step.seq] = {ARGV[step.at + 1], ARGV[step.at + 2], names_of(step.rest)} end
  if step.metadata ~= '' then redis.call('HSET', metadata, step.seq, step.metadata) end
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

if not exists then
  standing, ttl, life, pins = settings, asked.ttl, this_change, '0'
  redis.call('UNLINK', words, vectors, media, done)
  redis.call('HSET', conversation, 's', settings, 'life', life, 'created', now, 'pins', 0)
  if ttl then redis.call('HSET', conversation, 'ttl', ttl) end
  -- A conversation is there once it has an id, which is written last: a command before may be denied.
  note('id', ARGV[1])
end
if replaced then
  local seq, step = replaced.seq, replaced
  hold_media(step.rest) -- first: a medium that both have stays
  for name in string.gmatch(step.draft[3], string.rep('%x', 2 * NAME)) do release_all(name .. ' 1') end
  redis.call('LSET', log, seq - 1, step.body)
  redis.call('LSET', details, seq - 1, step.details)
  redis.call('SETRANGE', counts, (seq - 1) * RECORD, step.record)
  unindex(seq)
  redis.call('HDEL', metadata, seq)
  if step.rest.always then redis.call('HSET', pinned, seq, pin_value(step.record, step.details, step.body)) end
  count(step.record, step.body, ARGV[step.at + 1] - step.draft[1], ARGV[step.at + 2] - step.draft[2])
  write_notes(step)
  if seq == length then
    -- This value makes reads in several steps begin again. Checks for edits of earlier messages compare only the part before
    -- the tilde, which stays.
    edited = string.match(edited or '', '^[^~]*') .. '~' .. string.sub(this_change, 1, 8)
  else
    edited = this_change
    redis.call('UNLINK', columns)
    if tonumber(redis.call('HGET', conversation, 'through') or 0) >= seq then -- a summary that does not know its end
      redis.call('HDEL', conversation, 'summary', 'through')
    end
  end
  told[5] = edited
  note('edited', edited)
end
for _, step in ipairs(added) do write_beside(step) end
if after then release_all(after.media) end -- last: a medium that a new message has stays
if replaced and not replaced.rest.progress then drafts_now()[replaced.seq] = nil end
if drafts then
  local seqs, told_drafts = {}, {}
  for seq in pairs(drafts) do if seq <= length + #added then seqs[#seqs + 1] = seq end end
  table.sort(seqs, function(one, other) return one > other end)
  for place = 1, math.min(#seqs, DRAFTS) do
    local seq = seqs[place]
    told_drafts[place] = table.concat({seq, drafts[seq][1], drafts[seq][2]}, ' ')
    if drafts[seq][3] ~= '' then told_drafts[place] = told_drafts[place] .. 'm' .. drafts[seq][3] end
  end
  note('draft', table.concat(told_drafts, ' '))
end
if grounded > 0 then
  local before = redis.call('HMGET', conversation, 'g0', 'g1')
  note('gn', (gn or 0) + grounded)
  note('g0', (before[1] or 0) + g0)
  note('g1', (before[2] or 0) + g1)
end
if new_pins > 0 or after then note('pins', redis.call('HLEN', pinned)) end
write()
if stale then sweep(length + #added, tonumber(stale)) end
renew(ttl)
return with_tail and with_tail(told) or told

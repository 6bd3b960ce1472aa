#!lua
-- Append entries to a conversation, all or none, each id once; create the conversation when it is not there.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned, answers, done
-- ARGV  1 now (ms)   2 version that must stand, '*' for any, or ''   3 tenant/conversation   4 default ttl (ms), or ''
--       5 settings of a new conversation   6 number of entries, then 15 for each entry:
--         id, record, details, body, grounding or '', metadata or '', calls that it makes (JSON array) or '', call that it
--         answers or '', '1' when it belongs in every window or '', tokens o200k and cl100k, the same as a parallel
--         result, tokens of its documents o200k and cl100k
-- Gives {'ok', version, owner's settings, then for each entry seq, 1 if it was there already, 1 if a parallel result}
--    or {'moved', version} {'conflict', index} {'orphan', index} {'foreign'}
--
-- Everything is checked before anything is written: a script is atomic, but it is not undone.
-- include keeping.lua
local FIELDS, RECORD = 15, 24
local PARALLEL, REDACTED, LEGACY_CALL, RICH = 8, 16, 32, 64
local USER, FUNCTION, SEALED = 2, 5, 1
local conversation, log, counts, details, ids, grounding, metadata, pinned = unpack(KEYS)
local now, expected, name = ARGV[1], ARGV[2], ARGV[3]
local entries = tonumber(ARGV[6])

local state = redis.call('HMGET', conversation, 'id', 'v', 't0', 't1', 'gn', 'g0', 'g1', 'open', 'ttl', 'user', 's')
if state[1] and state[1] ~= name then
  return {'foreign'}
end
local length = redis.call('LLEN', log)
local open = state[8] and state[8] ~= '' and cjson.decode(state[8]) or nil

local function has(record, flag) return math.floor(string.byte(record, 1) / flag) % 2 == 1 end
local function role_of(record) return string.byte(record, 2) end
local function digest_of(its_details) return string.sub(its_details, 4, 19) end
local function record_at(seq) return redis.call('GETRANGE', counts, (seq - 1) * RECORD, seq * RECORD - 1) end

-- The seq of an entry that is stored. A rewind may leave ids behind that name nothing any more, or another entry: details
-- hold the id of their own, as a msgpack string behind the digest.
local function stored_seq(id)
  local seq = tonumber(redis.call('HGET', ids, id) or nil)
  if not seq or seq > length then return nil end
  local head = #id < 32 and string.char(0xa0 + #id) or '\217' .. string.char(#id)
  return string.find(redis.call('LINDEX', details, seq - 1), head .. id, 20, true) == 20 and seq or nil
end

-- First pass: what would happen.
local plan, in_batch, fresh = {}, {}, 0
for index = 1, entries do
  local at = 6 + (index - 1) * FIELDS
  local id, makes, answers = ARGV[at + 1], ARGV[at + 7], ARGV[at + 8]
  local seq = in_batch[id] and in_batch[id].seq or stored_seq(id)
  if seq then
    local known = in_batch[id] and in_batch[id].details or redis.call('LINDEX', details, seq - 1)
    local redacted = not in_batch[id] and has(record_at(seq), REDACTED)
    -- What was redacted stays so, whatever comes back under its id: its content is known to nobody, us included.
    if digest_of(known) ~= digest_of(ARGV[at + 3]) and not redacted then
      return {'conflict', index - 1}
    end
    local parallel = in_batch[id] and in_batch[id].parallel or (has(record_at(seq), PARALLEL) and 1 or 0)
    plan[index] = {seq = seq, old = true, parallel = parallel}
  else
    fresh = fresh + 1
    local step = {seq = length + fresh, old = false, parallel = 0}
    if answers ~= '' then
      local place
      for i, call in ipairs(open and open.p or {}) do
        if call == answers then place = i end
      end
      if not place then
        return {'orphan', index - 1}
      end
      table.remove(open.p, place)
      step.parallel = open.x
      step.group = open.s
    elseif makes ~= '' then
      local calls = cjson.decode(makes)
      open = {s = step.seq, x = #calls > 1 and 1 or 0, p = calls}
    else
      open = nil
    end
    plan[index] = step
    in_batch[id] = {seq = step.seq, details = ARGV[at + 3], parallel = step.parallel}
  end
end
if fresh > 0 and expected ~= '' and expected ~= (state[2] or '0') and not (expected == '*' and state[2]) then
  return {'moved', tonumber(state[2] or 0)}
end

-- Second pass: do it.
local version = tonumber(state[2] or 0)
local settings = state[11] or ARGV[5]
if fresh > 0 then
  version = version + 1
  local t0, t1 = tonumber(state[3] or 0), tonumber(state[4] or 0)
  local gn, g0, g1 = tonumber(state[5] or 0), tonumber(state[6] or 0), tonumber(state[7] or 0)
  local user, rich, sealed = state[10] or '0', false, false
  local ttl = state[9]
  if not state[1] then
    ttl = ARGV[4] ~= '' and ARGV[4] or nil
    redis.call('UNLINK', KEYS[ANSWERS], KEYS[DONE])
    redis.call('HSET', conversation, 'id', name, 's', settings, 'created', now)
    if ttl then redis.call('HSET', conversation, 'ttl', ttl) end
  end
  local function pin(seq, record, its_details, body)
    redis.call('HSET', pinned, seq, struct.pack('>I4', #its_details) .. record .. its_details .. body)
  end
  for index = 1, entries do
    local step = plan[index]
    if not step.old then
      local at = 6 + (index - 1) * FIELDS
      local record, its_details, body = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
      if step.parallel == 1 then record = string.char(string.byte(record, 1) + PARALLEL) .. string.sub(record, 2) end
      if role_of(record) == FUNCTION and step.seq > 1 and has(record_at(step.seq - 1), LEGACY_CALL) then
        step.group = step.seq - 1
      end
      redis.call('RPUSH', log, body)
      redis.call('APPEND', counts, record)
      redis.call('RPUSH', details, its_details)
      redis.call('HSET', ids, ARGV[at + 1], step.seq)
      rich, sealed = rich or has(record, RICH), sealed or string.byte(body) == SEALED
      if ARGV[at + 5] ~= '' then
        redis.call('HSET', grounding, step.seq, ARGV[at + 5])
        gn, g0, g1 = gn + 1, g0 + ARGV[at + 14], g1 + ARGV[at + 15]
      end
      if ARGV[at + 6] ~= '' then redis.call('HSET', metadata, step.seq, ARGV[at + 6]) end
      -- A pinned call or result takes its whole group along: the calls are never far from the end of the lists.
      if step.group and (ARGV[at + 9] == '1' or redis.call('HEXISTS', pinned, step.group) == 1) then
        for member = step.group, step.seq - 1 do
          if redis.call('HEXISTS', pinned, member) == 0 then
            pin(member, record_at(member), redis.call('LINDEX', details, member - 1), redis.call('LINDEX', log, member - 1))
          end
        end
        pin(step.seq, record, its_details, body)
      elseif ARGV[at + 9] == '1' then
        pin(step.seq, record, its_details, body)
      end
      t0 = t0 + ARGV[at + 10 + 2 * step.parallel]
      t1 = t1 + ARGV[at + 11 + 2 * step.parallel]
      if role_of(record) == USER then user = step.seq end
    end
  end
  redis.call('HSET', conversation, 'v', version, 'updated', now, 't0', t0, 't1', t1, 'gn', gn, 'g0', g0, 'g1', g1,
    'user', user, 'open', open and #open.p > 0 and cjson.encode(open) or '')
  if rich then redis.call('HSET', conversation, 'rich', 1) end
  if sealed then redis.call('HSET', conversation, 'sealed', 1) end
  renew(ttl)
end

local reply = {'ok', version, settings}
for index = 1, entries do
  reply[#reply + 1] = plan[index].seq
  reply[#reply + 1] = plan[index].old and 1 or 0
  reply[#reply + 1] = plan[index].parallel
end
return reply

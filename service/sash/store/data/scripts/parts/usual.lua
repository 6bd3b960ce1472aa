-- The short way of an append: entries with new ids, without documents and metadata, for a conversation that does not expire, of
-- a request without an Idempotency-Key.
-- None of them is in progress, left out of windows, or in every window. All else is left to the long way, before anything is written.
--
-- It makes no function and few tables, because each call makes them anew: a function costs it as much as a field that it reads.
local may = redis.acl_check_cmd -- servers of other makes may not have it
local is_usual = exists and is_expected and not (ttl or stale or asked.repeats or asked.token or asked.after or asked.set) and entries <= CHUNK
  and (not may or may('APPEND', log)) -- ids come first, and nothing is wrong where the log then is denied: they lead nowhere
if is_usual then
  local seq, sum0, sum1, question = length, t0 or 0, t1 or 0, user or '0'
  local now_waiting, now_rich, now_sealed = waiting, rich, sealed
  local records, new_ids, seqs, has_pins = '', {}, {}, pins and pins ~= '0' -- new_ids: each id, then its seq
  local named -- the agents of entries that have some
  local now_version, short = version + 1, string.sub(this_change, 1, 8)
  local told = {'ok', standing, etag_of(now_version, life, short), edited, '', false, false}
  local known = redis.call('HMGET', ids, unpack(ARGV, ID + 1, ID + entries))
  for place = 1, entries do
    local id, record, rest, parallel = ARGV[ID + place], ARGV[RECORDS + place], ARGV[REST + place], 0
    local o200k, cl100k, flags, role = ARGV[O200K + place], ARGV[CL100K + place], string.byte(record, 1, 2)
    is_usual = not (known[place] or seqs[id] or #rest > LARGE or has_pins and role == FUNCTION)
      and ARGV[DOCUMENTS + place] == '' and ARGV[METADATA + place] == ''
    rest = rest ~= '' and cmsgpack.unpack(rest)
    if not is_usual or rest and (rest.always or rest.progress or rest.unsent or rest.continues or rest.compaction or rest.media) then
      is_usual = false
      break
    end
    seq = seq + 1
    if rest and rest.answers then
      local group = now_waiting and now_waiting ~= '' and cjson.decode(now_waiting) or {s = 0, p = {}}
      local call = 1
      while group.p[call] and group.p[call] ~= rest.answers do call = call + 1 end
      is_usual = table.remove(group.p, call) and not (has_pins and redis.call('HEXISTS', pinned, group.s) == 1)
      if not is_usual then break end -- a late result, an orphan, or a result of a pinned call
      now_waiting = #group.p > 0 and cjson.encode(group) or ''
      if group.x == 1 then
        parallel, o200k, cl100k = 1, rest.parallel[1], rest.parallel[2]
        if math.floor(flags / PARALLEL) % 2 == 0 then record = string.char(flags + PARALLEL) .. string.sub(record, 2) end
      end
    else
      local calls = rest and rest.makes
      now_waiting = calls and cjson.encode({s = seq, x = #calls > 1 and 1 or 0, p = calls}) or ''
      for first = 1, calls and #rest.links or 0, LINK do
        local last, field = #new_ids, '\0' .. string.sub(rest.links, first, first + LINK - 1)
        is_usual = is_usual and not (seqs[field] or redis.call('HGET', ids, field))
        new_ids[last + 1], new_ids[last + 2], seqs[field] = field, seq, seq
      end
      if not is_usual then break end -- an id that was used before
    end
    if rest and rest.agents then
      named = named or {}
      for _, name in ipairs(rest.agents) do named[#named + 1] = name end
    end
    if role == USER then question = seq end
    if flags >= RICH then now_rich = (now_rich == '1' or flags % MIXED >= RICH) and '1' or 'scripts' end
    if string.byte(ARGV[BODIES + place]) == SEALED then now_sealed = '1' end
    records, sum0, sum1, seqs[id] = records .. record, sum0 + o200k, sum1 + cl100k, seq
    local last = #new_ids
    new_ids[last + 1], new_ids[last + 2] = id, seq
    told[7 + place] = 4 * seq + 2 * parallel
  end
  if is_usual and #new_ids <= 2 * CHUNK then -- more are not written at once
    redis.call('HSET', ids, unpack(new_ids))
    redis.call('RPUSH', log, unpack(ARGV, BODIES + 1, BODIES + entries))
    redis.call('RPUSH', details, unpack(ARGV, DETAILS + 1, DETAILS + entries))
    redis.call('APPEND', counts, records)
    local changed = question ~= user and {'user', question} or {}
    if now_waiting ~= (waiting or '') then changed[#changed + 1], changed[#changed + 2] = 'open', now_waiting end
    if now_rich ~= rich then changed[#changed + 1], changed[#changed + 2] = 'rich', now_rich end
    if now_sealed ~= sealed then changed[#changed + 1], changed[#changed + 2] = 'sealed', now_sealed end
    if named then
-- include agents
      local agents = redis.call('HGET', conversation, 'agents') or ''
      local now_agents = with_agents(agents, named, now_version)
      if now_agents ~= agents then changed[#changed + 1], changed[#changed + 2] = 'agents', now_agents end
    end
    if entries > 1 then
-- include changes
      changed[#changed + 1] = 'changes'
      changed[#changed + 1] = with_change(changes, 1, now_version, length + entries, 0, entries, 0)
    end
    redis.call('HSET', conversation, 'v', now_version, 'change', short, 'updated', now, 't0', sum0, 't1', sum1, unpack(changed))
    if followed and tonumber(followed) > tonumber(now) then redis.pcall('SPUBLISH', conversation, '') end
    told[5] = now_waiting or ''
    if not with_tail then return told end
    fields[6], fields[7], fields[9], fields[11], fields[12] = sum0, sum1, question, now_sealed, now_rich
    return with_tail(told, fields, length + entries)
  end
end

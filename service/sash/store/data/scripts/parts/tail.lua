-- A function of scripts that read a tail of a conversation's messages, likely to be enough for a window.
--
-- `fields` are as in state.lua; `length` is where the tail ends, and `last` the same where messages are behind it, else 0.
-- `reach` is what is wanted, packed as `Reach` has it (../../tails.py): budget in tokens, 0 when not known; column 0 for the total
-- in o200k, 1 for cl100k; limit of messages, 0 for none; scripts 1 when Latin and Cyrillic are told apart; block, the tokens of
-- one in which a stable cut is, or 0: the tail then begins with that block, not with the window; more messages to read besides;
-- whole 1 when the bodies of the whole tail are needed; with_words 1 when the words of all messages are needed, for recall;
-- with_agents 1 when the agents are, for a view; forms of compactions that the window can have, each with a space on both sides,
-- or ''.
-- Gives `told` with these behind it: the state, as in state.lua; the tail's records, joined; {body, …}; and, where there is any
--       of these, {name and value, …} of what few have: that of state.lua; details, joined, where a message needs them; documents
--       of the newest user message; pinned, {seq, record and body, …} of the pinned messages before the tail; question, {record,
--       details, body} of the newest user message when it is before the tail; compaction, {seq, record, details, body} of the
--       newest one in one of the forms; indexed, {all records joined, the number of indexed messages and all their blocks
--       (../../blocks.py)} of a conversation of up to MOST_WORDS messages; agents
--    or nil, with `told` as it was, where what it reads up to the log's end shows that a key is missing or has another length
--
-- Bodies are the newest ones of the tail. A body is left out where its text and all later texts are over the budget, unless
-- it or an older message is in every window, or all are asked for, or where a compaction stands for it. Where they have more
-- than NEAR bytes together, only the FEW newest come, or one: a script copies each value twice more than a plain command does,
-- while all clients wait, so plain commands read the others. The whole text of a conversation of FEW_TOKENS is near enough, and
-- its bytes are not added up. The newest body comes always.
-- Pinned messages before the tail have their bodies up to MOST_BYTES together. Records are one string, read at memory speed.
local function read_tail(told, fields, length, last, reach)
  local MOST_WORDS = 2000 -- a millisecond's worth: plain commands read longer indexes
  local COVERED = 64 -- messages that are read although the compaction stands for them
  local few = {} -- names and values of what few have
  local ENOUGH, SLACK, NEAR, FEW, FEW_TOKENS, MOST_BYTES, MOST_MESSAGES = 64, 1.2, 131072, 8, 16384, 4194304, 4000
  local budget, column, limit, scripts, block, more, whole, with_words, with_agents, forms = struct.unpack('<ddddddddds', reach)
  local grounded, newest_user, rich, pins, compactions = fields[8], fields[9], fields[12], fields[13], fields[14]
  local total = tonumber(fields[6 + column] or 0)
  local needs_scripts = scripts == 1
  local count = ENOUGH
  if budget > 0 then
    local needed = budget
    if block > 0 then needed = total - math.floor(math.max(0, total - budget) / block) * block end
    count = total <= budget and length or math.ceil(needed * length / total * SLACK) + ENOUGH + more
  end
  if limit > 0 and limit < count then count = limit + 1 end
  local stood = 0
  if compactions and forms ~= '' then
    for form, seq in string.gmatch(compactions, '(%a+) (%d+)') do
      if string.find(forms, ' ' .. form .. ' ', 1, true) then stood = math.max(stood, tonumber(seq)) end
    end
    if stood > 0 then
      few[1], few[2] = 'compaction', {
        stood, redis.call('GETRANGE', counts, (stood - 1) * RECORD, stood * RECORD - 1),
        redis.call('LINDEX', details, stood - 1), redis.call('LINDEX', log, stood - 1),
      }
      count = math.min(count, length - stood + COVERED)
    end
  end
  local first = math.max(1, length - math.min(count, MOST_MESSAGES) + 1)

  -- With 0 for `last`, ranges end with their key: then one of the right size tells that the key has no more and no less.
  local records = redis.call('GETRANGE', counts, (first - 1) * RECORD, last * RECORD - 1)
  if #records ~= (length - first + 1) * RECORD then return nil end
  if rich == '1' or rich and needs_scripts then
    local above = needs_scripts and 2 * MIXED or MIXED -- without scripts, only RICH matters
    for at = 1, #records, RECORD do
      if string.byte(records, at) % above >= RICH then
        few[#few + 1], few[#few + 2] = 'details', table.concat(redis.call('LRANGE', details, first - 1, length - 1))
        break
      end
    end
  end
  local user = tonumber(newest_user or 0)
  if tonumber(grounded or 0) > 0 then
    if last == 0 and redis.call('HLEN', grounding) < tonumber(grounded) then return nil end
    local documents = redis.call('HGET', grounding, user)
    if documents then few[#few + 1], few[#few + 2] = 'documents', documents end
  end
  if user > 0 and user < first then
    few[#few + 1], few[#few + 2] = 'question', {
      redis.call('GETRANGE', counts, (user - 1) * RECORD, user * RECORD - 1), redis.call('LINDEX', details, user - 1),
      redis.call('LINDEX', log, user - 1),
    }
  end
  local always = user >= first and user or length
  if pins and pins ~= '0' then
-- include pins
    local seqs, before, left = redis.call('HKEYS', pinned), {}, MOST_BYTES
    if last == 0 and #seqs ~= tonumber(pins) then return nil end
    for _, pin in ipairs(seqs) do
      local seq = tonumber(pin)
      if seq < first then
        local value
        if left > 0 then
          value = redis.call('HGET', pinned, pin)
          left = left - #value
        else
          value = pin_value(
            redis.call('GETRANGE', counts, (seq - 1) * RECORD, seq * RECORD - 1), redis.call('LINDEX', details, seq - 1), '')
        end
        before[#before + 1] = pin
        before[#before + 1] = value
      elseif seq < always then
        always = seq
      end
    end
    if #before > 0 then few[#few + 1], few[#few + 2] = 'pinned', before end
  end
  local newest = length - first + 1
  if rich == '1' or total > budget or total > FEW_TOKENS then
    local unpacked = struct.unpack
    local near, room = NEAR, budget > 0 and whole ~= 1 and budget or math.huge
    newest = 0
    for at = #records - RECORD + 5, math.max(1, (stood - first + 1) * RECORD + 1), -RECORD do
      local in_o200k, in_cl100k, size = unpacked('<I4I4I4', records, at)
      near, room = near - size, room - (column == 0 and in_o200k or in_cl100k)
      if room < 0 and length - newest < always and newest > 0 then break end
      if near < 0 then
        newest = math.min(newest, FEW)
        break
      end
      newest = newest + 1
    end
    newest = math.min(length, math.max(1, newest))
  end
  local bodies = redis.call('LRANGE', log, length - newest, length > 0 and last - 1 or 0)
  if #bodies ~= newest then return nil end
  if with_words == 1 and length > 0 and length <= MOST_WORDS then
    local wanted = {'n'}
    for number = 0, (length - 1) / BLOCK do wanted[#wanted + 1] = number end
    few[#few + 1], few[#few + 2] = 'indexed', {redis.call('GETRANGE', counts, 0, -1), redis.call('HMGET', words, unpack(wanted))}
  end
  local agents = with_agents == 1 and redis.call('HGET', conversation, 'agents')
  if agents then few[#few + 1], few[#few + 2] = 'agents', agents end
  return tell_state(told, few, fields, length, records, bodies)
end

-- Functions of the append script that plan its steps: what each entry adds, or replaces. Nothing is written yet.

local now_compactions = compactions
-- Note a compaction, which stands for all messages before it in its form. A rewind before it needs what the field was.
local function note_compaction(seq, form)
  local kept = now_compactions or ''
  new_ids[#new_ids + 1] = '\0compaction:' .. seq
  new_ids[#new_ids + 1] = seq .. ' ' .. kept
  local others = string.gsub(kept, ' ?' .. form .. ' %d+', '')
  now_compactions = string.gsub(others .. ' ' .. form .. ' ' .. seq, '^ ', '')
end

-- Count a message's tokens, and note what its record and body tell.
local function count(record, body, o200k, cl100k)
  sum0, sum1 = sum0 + o200k, sum1 + cl100k
  now_rich, now_sealed = richer(now_rich, record), now_sealed or string.byte(body) == SEALED and '1'
end

-- Add a step's message. A result of one of several calls has other tokens.
local function add(step)
  local record, body, place, tokens = step.record, step.body, #records + 1, step.parallel and step.rest.parallel
  local flags = (tokens and not has(record, PARALLEL) and PARALLEL or 0) + (step.late and not has(record, LATE) and LATE or 0)
  if flags > 0 then record = string.char(string.byte(record) + flags) .. string.sub(record, 2) end
  records[place], new_details[place], bodies[place] = record, step.details, body
  new_ids[#new_ids + 1] = step.id
  new_ids[#new_ids + 1] = step.seq
  if role_of(record) == USER and not step.rest.unsent then question = step.seq end
  if tokens then count(record, body, tokens[1], tokens[2]) else count(record, body, step.o200k, step.cl100k) end
  added[#added + 1] = step
end

local new_pins, pinned_groups = 0, {}
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
  local is_redacted = record and has(record, REDACTED)
  if is_redacted and step.rest.continues and not asked.repeats then return {'conflict', index - 1, 4} end
  local is_known = asked.repeats or is_redacted
  local is_other = digest_of(its_details) ~= digest_of(step.details) and not is_known
  local why
  if is_other and not (earlier or replaced) and #added == 0 then step.draft, why = draft_for(step) end
  if is_other and not step.draft then
    local is_ended = not earlier and step.rest.continues and not why -- another one ended it, as when it became a branch
      and string.find(its_details, '\171interrupted', 12 + #id_of(its_details), true)
    return {'conflict', index - 1, is_ended and 4 or why or 0}
  end
  step.parallel = earlier and earlier.parallel or record and has(record, PARALLEL)
  if step.draft then
    replaced = step
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
  local standing_one = replaced and replaced.seq == seq - 1 and replaced.record
  local before = records[#records] or standing_one or seq > 1 and record_at(seq - 1)
  return before and has(before, LEGACY_CALL) and role_of(before) ~= TOOL and seq - 1 or nil
end

-- The record of a message that is stored, or was planned before.
local function standing_record(seq)
  if replaced and replaced.seq == seq then return replaced.record end
  return seq > length and records[seq - length] or record_at(seq)
end

-- Whether windows leave out the call of a result, and so the result.
local function is_left_out(maker) return string.byte(standing_record(maker), 4) % (2 * LEFT_OUT) >= LEFT_OUT end

-- A step that adds a message. Gives the refusal, if any.
local function plan_new(index, step)
  if asked.repeats then return {'undone'} end -- a rewind took it away
  if step.rest.continues then return {'conflict', index - 1, 4} end -- and this entry in progress too
  if step.rest.answers and take(step.rest.answers) then
    step.parallel, step.group = open.x == 1, open.s
    step.rest.always = step.rest.always and not is_left_out(open.s)
  elseif step.rest.answers then
    local maker = maker_of(step.rest.links)
    if not maker then return {'orphan', index - 1} end
    step.late, step.parallel = true, string.byte(standing_record(maker), 3) > 1
    local is_pinned = pinned_groups[maker] or maker <= length and in_every_window(maker)
    step.rest.always = (step.rest.always or is_pinned) and not is_left_out(maker)
  else
    open = group_of(step.seq, step.rest.makes)
    note_calls(step.seq, step.rest)
    if step.rest.compaction then note_compaction(step.seq, step.rest.compaction) end
    if role_of(step.record) == FUNCTION then step.group = legacy_group(step.seq) end
  end
  count_pins(step)
  add(step)
end

-- A function of scripts that tell a conversation's state, with a tail of its messages or without one.
--
-- `fields` are those of fields.lua, with the entity tag in place of the fourth.
-- Gives `told` with these behind it: tenant/conversation, etag, length, tokens in o200k, in cl100k, newest user message, `records`,
--       `bodies`, and `few`, or false where it is empty. `few` has a name and a value in turn, and gets what few conversations have:
--       edited, sealed, rich, compactions, summary, and grounding, {messages with documents, their tokens in o200k, in cl100k}
local function tell_state(told, few, fields, length, records, bodies)
  if fields[8] then
    local tokens = fields.grounding_tokens or redis.call('HMGET', conversation, 'g0', 'g1')
    few[#few + 1], few[#few + 2] = 'grounding', {fields[8], tokens[1], tokens[2]}
  end
  if fields[10] then few[#few + 1], few[#few + 2] = 'edited', fields[10] end
  if fields[11] then few[#few + 1], few[#few + 2] = 'sealed', fields[11] end
  if fields[12] then few[#few + 1], few[#few + 2] = 'rich', fields[12] end
  if fields[14] then few[#few + 1], few[#few + 2] = 'compactions', fields[14] end
  if fields[15] then few[#few + 1], few[#few + 2] = 'summary', fields[15] end
  local at = #told
  told[at + 1], told[at + 2], told[at + 3] = fields[1], fields[4], length
  told[at + 4], told[at + 5], told[at + 6] = fields[6], fields[7], fields[9]
  told[at + 7], told[at + 8], told[at + 9] = records, bodies, few[1] and few
  return told
end

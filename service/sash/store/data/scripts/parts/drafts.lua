-- Functions of the append script for entries in progress. The field `draft` has what the newest DRAFTS of them have in the
-- totals: each its seq, tokens in o200k and cl100k, and behind an m the names of its media in hex; newest first.
local DRAFTS, NAMED, PARTY = 32, 4, 8

local drafts -- by seq, once the field is read
local function drafts_now()
  if not drafts then
    drafts = {}
    for seq, o200k, cl100k, names in string.gmatch(redis.call('HGET', conversation, 'draft') or '', '(%d+) (%d+) (%d+)m?(%x*)') do
      drafts[tonumber(seq)] = {tonumber(o200k), tonumber(cl100k), names}
    end
  end
  return drafts
end

-- The digest of an entry's author and audience, which are the last bytes of its details; '' without these.
local function party_of(record, its_details)
  return string.byte(record, 4) % (2 * NAMED) >= NAMED and string.sub(its_details, -PARTY) or ''
end

-- What the entry in progress at a step's seq has in the totals, if this step may replace it; else nil, and the reason: 1 where
-- the stored text is longer, so that this is a late retry, 2 where its part is unknown, 3 where the step has another role, 5 another author
-- or audience.
local function draft_for(step)
  local record = step.seq <= length and record_at(step.seq)
  if not record or string.byte(record, 4) < IN_PROGRESS then return nil end
  if role_of(step.record) ~= role_of(record) then return nil, 3 end
  if party_of(step.record, step.details) ~= party_of(record, details_at(step.seq)) then return nil, 5 end
  if step.rest.progress and struct.unpack('<I4', step.record, 13) < struct.unpack('<I4', record, 13) then return nil, 1 end
  return drafts_now()[step.seq], 2
end

-- The field after this write, of entries up to seq `last`; nil where it does not change.
local function drafts_field(last)
  if not drafts then return nil end
  local seqs, values = {}, {}
  for seq in pairs(drafts) do if seq <= last then seqs[#seqs + 1] = seq end end
  table.sort(seqs, function(one, other) return one > other end)
  for place = 1, math.min(#seqs, DRAFTS) do
    local seq, o200k, cl100k, names = seqs[place], unpack(drafts[seqs[place]])
    values[place] = table.concat({seq, o200k, cl100k}, ' ') .. (names ~= '' and 'm' .. names or '')
  end
  return table.concat(values, ' ')
end

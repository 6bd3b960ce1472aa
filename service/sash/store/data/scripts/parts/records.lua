-- Functions of scripts that look into records.

-- Whether a record has a flag of its first byte.
local function has(record, flag) return math.floor(string.byte(record, 1) / flag) % 2 == 1 end

-- The field `rich` after a message with this record: '1' where some message's details change its cost, 'scripts' where some
-- have its scripts alone, which only estimates need; false where no details are needed.
local function richer(rich, record)
  if rich == '1' or has(record, RICH) then return '1' end
  return has(record, MIXED) and 'scripts' or rich
end

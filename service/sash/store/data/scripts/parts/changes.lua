-- The field `changes` with a change more: its kinds, the version and the length that it left, the message that it is about (0 for
-- none), and how many messages it added and, before that, forgot. changes.py describes the lines. A change like the one before
-- makes that one's line longer. When there are too many, the oldest goes, and a flag of the next one says so.
local function with_change(changes, kinds, version, length, seq, added, forgot)
  local LINE, FORM, MOST, FLOOR, COUNT = 24, '<I2I2I4I4I4I4I4', 48, 128, 65535
  local kept, count = changes or '', 1
  if forgot == 0 and #kept >= LINE then
    local last, repeats, last_version, last_length, last_seq, last_added, last_forgot =
      struct.unpack(FORM, kept, #kept - LINE + 1)
    if last == kinds and last_seq == seq and last_added == added and last_forgot == 0 and repeats < COUNT
      and last_version + 1 == version and last_length + added == length then
      kept, count = string.sub(kept, 1, -LINE - 1), repeats + 1
    end
  end
  if #kept >= LINE * MOST then
    local oldest = struct.unpack('<I2', kept, LINE + 1)
    local is_floor = oldest % (2 * FLOOR) >= FLOOR
    kept = struct.pack('<I2', is_floor and oldest or oldest + FLOOR) .. string.sub(kept, LINE + 3)
  end
  return kept .. struct.pack(FORM, kinds, count, version, length, seq, added, forgot)
end

-- The field `change_times` with a time more: the version and its milliseconds, of those that took something away or changed it.
local function with_time(times, version, now)
  return string.sub((times or '') .. struct.pack('<I4d', version, now), -12 * 48)
end

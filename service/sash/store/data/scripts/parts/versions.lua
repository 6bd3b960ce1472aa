-- Functions of scripts that write a new version of a conversation.
-- include changes
local function stands(if_match, etag) return if_match == '' or if_match == '*' or if_match == etag end

-- The error of the first of these commands that the user may not run. A script is not undone where a command in its middle is
-- denied, so it asks about all that write before the first of them. Servers of other makes may not know how to ask.
local function denial_of(commands)
  for _, command in ipairs(redis.acl_check_cmd and commands or {}) do
    if not redis.acl_check_cmd(command, log) then
      return redis.error_reply("NOPERM the user may not run the '" .. string.lower(command) .. "' command")
    end
  end
end

-- Kinds of changes, in changes.py.
local DID_APPEND, DID_REPLACE, DID_REWIND, DID_REDACT, DID_AMEND, DID_SET, DID_SUMMARIZE, DID_BEGIN = 1, 2, 4, 8, 16, 32, 64, 128
local DID_BRANCH = 256

-- Wake those who follow the conversation, where somebody does. The channel is called like the key, and so is in its slot. A
-- message that the user may not send is missed until the next look (followers look every few seconds).
local function wake(followed, now, told)
  if followed and tonumber(followed) > tonumber(now) then redis.pcall('SPUBLISH', conversation, told or '') end
end

-- Write a new version, with other fields and their values; gives its entity tag.
local function write_version(version, life, change, now, fields)
  local short = string.sub(change, 1, 8)
  redis.call('HSET', conversation, 'v', version, 'change', short, 'updated', now, unpack(fields or {}))
  return etag_of(version, life, short)
end

-- Write a new version of this kind, about the message `seq` if it is about one, which forgot so many messages; wake those who
-- follow the conversation.
local function write_change(kind, seq, forgot, version, life, change, now, fields)
  local changes, followed, times = unpack(redis.call('HMGET', conversation, 'changes', 'followed', 'change_times'))
  local changed = fields or {}
  changed[#changed + 1] = 'change_times'
  changed[#changed + 1] = with_time(times, version, now)
  changed[#changed + 1] = 'changes'
  changed[#changed + 1] = with_change(changes, kind, tonumber(version), redis.call('LLEN', log), seq, 0, forgot)
  local etag = write_version(version, life, change, now, changed)
  wake(followed, now)
  return etag
end

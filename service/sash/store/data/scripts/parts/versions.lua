-- Functions of scripts that write a new version of a conversation.
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

-- Write a new version, with other fields and their values; gives its entity tag.
local function write_version(version, life, change, now, fields)
  local short = string.sub(change, 1, 8)
  redis.call('HSET', conversation, 'v', version, 'change', short, 'updated', now, unpack(fields or {}))
  return etag_of(version, life, short)
end

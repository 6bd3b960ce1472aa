-- How long a conversation and what belongs to it are kept, and which requests were done.
--
-- KEYS  conversation, log, counts, details, ids, grounding, metadata, pinned, answers, done: in this order, in each script
-- that includes this
local KEPT, ANSWERS, DONE, DAY = 8, 9, 10, 86400000

-- Begin the time of all of it anew, if it has one. Answers and tokens go a day after the last change, if not before with the
-- conversation: a new one of its name finds none.
local function renew(ttl)
  if not ttl then return end
  for index = 1, KEPT do redis.call('PEXPIRE', KEYS[index], ttl) end
  for index = ANSWERS, DONE do redis.call('PEXPIRE', KEYS[index], math.min(ttl, DAY)) end
end

local function was_done(token) return redis.call('HEXISTS', KEYS[DONE], token) == 1 end

-- A request that is asked again, after others were at work, must change nothing more. Fields cannot expire on every server
-- that we run on: each new one drops a few old ones instead.
local function mark_done(token, now, ttl)
  redis.call('HSET', KEYS[DONE], token, now)
  local some = redis.call('HRANDFIELD', KEYS[DONE], 4, 'WITHVALUES')
  for index = 1, #some, 2 do
    if some[index + 1] + DAY < tonumber(now) then redis.call('HDEL', KEYS[DONE], some[index]) end
  end
  redis.call('PEXPIRE', KEYS[DONE], math.min(ttl or DAY, DAY))
end


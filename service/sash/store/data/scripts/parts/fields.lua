-- A function of scripts that read a conversation's fields: those that appends and windows need alike, then the others that are
-- named; each costs as much as a small command. The places of the first: 1 id  2 v  3 life  4 change  5 s  6 t0  7 t1  8 gn  9 user
-- 10 edited  11 sealed  12 rich  13 pins  14 compactions; the 15th, which only a window needs, is summary.
local function read_fields(...)
  return redis.call('HMGET', conversation, 'id', 'v', 'life', 'change', 's', 't0', 't1', 'gn', 'user', 'edited', 'sealed', 'rich',
    'pins', 'compactions', ...)
end

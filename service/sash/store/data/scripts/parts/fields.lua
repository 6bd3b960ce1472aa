-- A function of scripts that read a conversation's fields: those that appends and windows need alike, then the others that are
-- named. The places of the first: 1 id  2 v  3 life  4 change  5 s  6 t0  7 t1  8 gn  9 ttl  10 user  11 edited  12 sealed
-- 13 rich  14 pins  15 compactions; those that only a window needs (16 to 20) are created, updated, g0, g1, summary.
local function read_fields(...)
  return redis.call('HMGET', conversation, 'id', 'v', 'life', 'change', 's', 't0', 't1', 'gn', 'ttl', 'user', 'edited', 'sealed',
    'rich', 'pins', 'compactions', ...)
end

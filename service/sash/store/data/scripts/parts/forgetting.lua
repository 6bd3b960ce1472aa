-- include earlier, summary
-- Forget the messages after `keep` of `length`: in the lists, the index, and all that is beside them.
--
-- `less` are tokens less (o200k, cl100k), messages with documents less, and tokens of documents less (both). `unpinned` are
-- seqs that are no longer in every window, and `stale` is the last seq that may have documents or metadata of an earlier
-- rewind. Gives the last seq that may have some left now, or 0, and whether the summary is gone.
local function forget(keep, length, stale, less, unpinned)
  if keep == 0 then
    redis.call('UNLINK', log, counts, details, words, vectors)
  else
    redis.call('LTRIM', log, 0, keep - 1)
    redis.call('LTRIM', details, 0, keep - 1)
    cut_index(words, keep)
    cut_index(vectors, keep)
    redis.call('SET', counts, redis.call('GETRANGE', counts, 0, keep * RECORD - 1))
  end
  for _, seq in ipairs(redis.call('HKEYS', pinned)) do
    if tonumber(seq) > keep then redis.call('HDEL', pinned, seq) end
  end
  for _, seq in ipairs(unpinned) do redis.call('HDEL', pinned, seq) end
  local left = 0
  if redis.call('HLEN', grounding) + redis.call('HLEN', metadata) > 0 then
    left = sweep(keep, math.max(length, tonumber(stale or 0)))
  end
  -- Subtracted from 0, because -n would be -0 where n is 0, and Redis 7 does not accept -0 as an integer.
  for place, field in ipairs({'t0', 't1', 'gn', 'g0', 'g1'}) do
    redis.call('HINCRBY', conversation, field, 0 - less[place])
  end
  local without_summary = forget_summary(keep)
  forget_earlier_summaries(keep)
  redis.call('UNLINK', columns)
  return left, without_summary
end

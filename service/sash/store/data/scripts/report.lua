#!lua
-- Count one report of what a provider billed, once.
--
-- KEYS  calibration (hash), ratios (list, newest first)
-- ARGV  1 token of this request   2 billed / bare, '' to read only   3 predicted - billed
--       4 how long to keep reports (ms)   5 how many ratios to remember
--       6 billed / predicted as told, bare and billed   7 the model's name   8 digest of the figures that predicted
-- Gives {reports, sum of errors, worst error, {ratio, token, and what ARGV[6] was, …}}
--
-- Reports of other figures are forgotten.
local totals, ratios = KEYS[1], KEYS[2]
local figures = redis.call('HGET', totals, 'figures')
if figures and figures ~= ARGV[8] then
  if ARGV[2] == '' then return {0, 0, 0, {}} end
  redis.call('UNLINK', totals, ratios)
end
local known = redis.call('LRANGE', ratios, 0, -1)
for _, each in ipairs(known) do
  if string.match(each, '^%S+ (%S+)') == ARGV[1] then ARGV[2] = '' end
end
if ARGV[2] ~= '' then
  redis.call('HINCRBY', totals, 'n', 1)
  redis.call('HINCRBY', totals, 'sum', ARGV[3])
  local worst = tonumber(redis.call('HGET', totals, 'worst') or 0)
  if math.abs(tonumber(ARGV[3])) > math.abs(worst) then redis.call('HSET', totals, 'worst', ARGV[3]) end
  redis.call('HSET', totals, 'model', ARGV[7], 'figures', ARGV[8])
  redis.call('LPUSH', ratios, ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. ARGV[6])
  redis.call('LTRIM', ratios, 0, ARGV[5] - 1)
  redis.call('PEXPIRE', totals, ARGV[4])
  redis.call('PEXPIRE', ratios, ARGV[4])
  known = redis.call('LRANGE', ratios, 0, -1)
end
local state = redis.call('HMGET', totals, 'n', 'sum', 'worst')
return {tonumber(state[1] or 0), tonumber(state[2] or 0), tonumber(state[3] or 0), known}

#!lua
-- Takes permits of rates, or tells what is owed (GCRA).
-- What has been taken and not yet been paid back is a debt; time pays it back, a permit each interval.
-- Permits can be had at once while the debt stays within the burst; later ones are taken now, for when that is so.
-- The debt counts from when it was last written, so a clock that goes back stops it for no longer than the step.
--
-- KEYS[1...]  rate      hash: at (server µs), debt (permits), interval (µs a permit)
-- ARGV[1]     valid     server µs after which this command is refused
-- ARGV[4i-2]  interval  the i-th; µs a permit, a fraction
-- ARGV[4i-1]  burst     permits
-- ARGV[4i]    permits   how many to take
-- ARGV[4i+1]  wait      µs that the caller is ready to wait
--
-- Returns  {µs, then a value for each}: ns until nothing is owed, positive if taken, negative if not; 0 stale;
--          an error's text.
-- Late     refused after `valid`; until then a second copy takes permits again.
-- Cost     O(1) for each.
local call = redis.call
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
local stale = us > tonumber(ARGV[1])
local reply, rates = {us}, {}
for i = 1, #KEYS do
  local key, interval, permits = KEYS[i], tonumber(ARGV[4 * i - 2]), ARGV[4 * i]
  local rate = rates[key]
  if stale then
    reply[i + 1] = 0
  elseif not rate then
    local kept = redis.pcall("HMGET", key, "at", "debt", "interval")
    if kept.err then
      reply[i + 1] = kept.err
    else
      -- What is no number of ours counts as absent.
      local at, debt, was = tonumber(kept[1]) or us, tonumber(kept[2]) or 0, tonumber(kept[3]) or interval
      if us > at then debt = debt - (us - at) / was end
      -- After the clock went back the debt would not shrink before that catches up, so it is written anew.
      rate = {debt = debt > 0 and debt or 0, interval = was, changed = us < at}
      rates[key] = rate
    end
  end
  if rate then
    if rate.interval ~= interval then rate.interval, rate.changed = interval, true end
    rate.text = ARGV[4 * i - 2]
    local over = rate.debt + permits - ARGV[4 * i - 1]
    local sign = -1
    -- Less than a thousand-millionth is what sums of fractions lose.
    if over < 1e-9 or over * interval <= tonumber(ARGV[4 * i + 1]) then
      rate.debt, rate.changed, sign = rate.debt + permits, true, 1
    end
    -- A rate that was lowered a millionfold owes more than an integer takes.
    reply[i + 1] = sign * math.min(math.ceil(rate.debt * interval * 1000), 2 ^ 62)
  end
end
for key, rate in pairs(rates) do
  if rate.changed then
    -- Not tostring or "..", which spoil such numbers.
    local at, debt = string.format("%d", us), string.format("%.17g", rate.debt)
    call("HSET", key, "at", at, "debt", debt, "interval", rate.text)
    call("PEXPIRE", key, string.format("%d", math.min(math.ceil(rate.debt * rate.interval / 1000), 1e15)))
  end
end
return reply

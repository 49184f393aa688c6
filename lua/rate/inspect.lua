#!lua flags=no-writes
-- Tells what is owed of a rate, and takes nothing.
--
-- KEYS[1]  rate  hash: at (server µs), debt (permits), interval (µs a permit)
--
-- Returns  {permits owed, a begun one counts; ns until nothing is owed}.
-- Late     harmless: reads only.
-- Cost     O(1).
local call = redis.call
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
local kept = call("HMGET", KEYS[1], "at", "debt", "interval")
local at, debt, interval = tonumber(kept[1]) or us, tonumber(kept[2]) or 0, tonumber(kept[3]) or 0
if us > at and interval > 0 then debt = debt - (us - at) / interval end
-- Less than a thousand-millionth is what sums of fractions lose.
if debt < 1e-9 then return {0, 0} end
return {math.ceil(debt - 1e-9), math.min(math.ceil(debt * interval * 1000), 2 ^ 62)}

#!lua flags=allow-oom
-- Replaces holds by others that have their permits between them, and the earliest of their deadlines.
--
-- KEYS[1]     permits  zset: hold|weight -> deadline, server ms
-- ARGV[1]     valid    server µs after which this command is refused
-- ARGV[2]     count    how many holds go
-- ARGV[3...]  holds    hold|weight of those that go, then of those that come
--
-- Returns  {µs, value}: 1 done; -1 one that was to go is gone, and nothing was done; 0 stale.
-- Late     refused after `valid`; until then a second copy finds that the first ones are gone.
-- Cost     O(log n) in the permits for each hold.
local call = redis.call
local count = tonumber(ARGV[2])
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
if us > tonumber(ARGV[1]) then return {us, 0} end
local earliest = math.huge
for i = 3, count + 2 do
  local deadline = call("ZSCORE", KEYS[1], ARGV[i])
  if not deadline then return {us, -1} end
  earliest = math.min(earliest, tonumber(deadline))
end
-- First those that come, as a key without members would lose its time to live.
for i = count + 3, #ARGV do call("ZADD", KEYS[1], string.format("%d", earliest), ARGV[i]) end
for i = 3, count + 2 do call("ZREM", KEYS[1], ARGV[i]) end
return {us, 1}

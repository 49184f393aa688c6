#!lua
-- Sets a latch that nobody counts down at present.
--
-- KEYS[1]  latch        hash: count, incarnation, valid (server µs until which a copy of its setting may come)
-- KEYS[2]  ops          hash: client -> how much it has counted down
-- ARGV[1]  valid        server µs after which this command is refused
-- ARGV[2]  count
-- ARGV[3]  incarnation  a name that no other latch ever has
-- ARGV[4]  life         ms
--
-- Returns  {µs, and 1 set, 2 another one is counted down, 0 stale}.
-- Late     refused after `valid`; until then a second copy finds what the first has set, also when that is open again,
--          unless another one was set after it.
-- Cost     O(1), and O(clients) for what an earlier one has left.
local call = redis.call
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
if us > tonumber(ARGV[1]) then return {us, 0} end
local kept = call("HMGET", KEYS[1], "count", "incarnation")
if kept[2] == ARGV[3] then return {us, 1} end
if (tonumber(kept[1]) or 0) > 0 then return {us, 2} end
if ARGV[2] == "0" then return {us, 1} end
-- Data of another type are an error before anything is written.
call("HGET", KEYS[2], "")
call("PEXPIRE", KEYS[2], 0)
call("HSET", KEYS[1], "count", ARGV[2], "incarnation", ARGV[3], "valid", ARGV[1])
call("PEXPIRE", KEYS[1], ARGV[4])
return {us, 1}

#!lua flags=allow-oom
-- Stores how many permits there are, or changes it, or forgets it; a release without entries then grants what can be.
--
-- KEYS[1]  used     string: how many permits are held, without it they are counted
-- KEYS[2]  permits  zset: hold|weight -> deadline, server ms
-- KEYS[3]  limit    string: how many permits there are, if that is stored
-- ARGV[1]  valid    server µs after which this command is refused
-- ARGV[2]  action   set; add, to what is stored or else to `default`; drop, a hold and its permits; clear
-- ARGV[3]  number   to set or to add, or how many permits the hold has
-- ARGV[4]  default  how many permits there are if that is not stored
-- ARGV[5]  hold     hold|weight to drop
--
-- Returns  {µs, value}: one more than the limit from now on; -1 none is stored any more; -2 the hold to drop is gone;
--          0 stale.
-- Late     refused after `valid`; until then only `add` does more when it comes twice.
-- Cost     O(log n) in the permits.
local call = redis.call
local used, permits, limit = KEYS[1], KEYS[2], KEYS[3]
local action, number = ARGV[2], tonumber(ARGV[3])
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
if us > tonumber(ARGV[1]) then return {us, 0} end
if action == "clear" then
  -- Asked for first, as DEL would take data of another type as well.
  if call("GET", limit) then call("DEL", limit) end
  return {us, -1}
end
local most = tonumber(call("GET", limit) or nil) or tonumber(ARGV[4])
if action == "set" then most = number end
-- A client can count no more.
if action == "add" then most = math.min(most + number, 4294967295) end
if action == "drop" then
  if call("ZREM", permits, ARGV[5]) == 0 then return {us, -2} end
  call("DEL", used)
  most = math.max(most - number, 0)
end
-- It lives for 30 days beyond its last use.
call("SET", limit, string.format("%d", most), "PX", 2592000000)
return {us, most + 1}

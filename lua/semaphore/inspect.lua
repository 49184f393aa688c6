#!lua flags=no-writes
-- Tells how many permits there are and are held, and who holds and waits.
--
-- KEYS[1]  used     string: how many permits are held, without it they are counted
-- KEYS[2]  queue    zset: hold|kind|weight|lease|grant -> ticket
-- KEYS[3]  permits  zset: hold|weight -> deadline, server ms
-- KEYS[4]  limit    string: how many permits there are, if that is stored
-- ARGV[1]  limit    how many holds and how many waiters to list at most
--
-- Returns  {the stored limit or -1, permits held, µs, how many wait, how many holds and deadlines follow, those,
--          then entries and tickets}. Holds whose deadline is over may be listed, but do not count as held.
-- Late     harmless: reads only.
-- Cost     O(limit + holds that are over, or those that are not if they are fewer); O(n) in the permits if `used` is
--          missing.
local call = redis.call
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
local most = ARGV[1] - 1
local function list(key) return most < 0 and {} or call("ZRANGE", key, 0, most, "WITHSCORES") end
local function weigh(members)
  local sum = 0
  for _, member in ipairs(members) do sum = sum + (tonumber(string.match(member, "|(%d+)$")) or 0) end
  return sum
end
local sum = tonumber(call("GET", KEYS[1]) or nil)
local all, over = call("ZCARD", KEYS[3]), call("ZCOUNT", KEYS[3], "-inf", string.format("%d", (us - us % 1000) / 1000))
-- Whichever are fewer are counted: those that are left, or those that are over.
if sum and over < all - over then
  if over > 0 then sum = sum - weigh(call("ZRANGE", KEYS[3], 0, over - 1)) end
else
  sum = weigh(call("ZRANGE", KEYS[3], over, -1))
end
local holds = list(KEYS[3])
local reply = {tonumber(call("GET", KEYS[4]) or -1), sum, us, call("ZCARD", KEYS[2]), #holds}
for _, part in ipairs(holds) do reply[#reply + 1] = part end
for _, part in ipairs(list(KEYS[2])) do reply[#reply + 1] = part end
return reply

#!lua flags=no-writes
-- Tells who holds a read-write lock and who waits for it.
--
-- KEYS[1]  lock     hash: a writer's hold id -> count:deadline:since[:token], server ms
-- KEYS[2]  queue    zset: hold|kind|weight|lease|grant -> ticket
-- KEYS[3]  readers  zset: a reader's hold id -> deadline, server ms
-- ARGV[1]  limit    how many waiters to list at most
--
-- Returns  {µs, how many wait, how many hold ids and values follow, those, then entries and tickets};
--          a reader's value is r:deadline. Holds whose deadline is over may be among them.
-- Late     harmless: reads only.
-- Cost     O(readers + limit).
local call = redis.call
local time = call("TIME")
local holds = call("HGETALL", KEYS[1])
for i, part in ipairs(call("ZRANGE", KEYS[3], 0, -1, "WITHSCORES")) do
  holds[#holds + 1] = i % 2 == 1 and part or "r:" .. part
end
local reply = {time[1] * 1000000 + time[2], call("ZCARD", KEYS[2]), #holds}
for _, part in ipairs(holds) do reply[#reply + 1] = part end
-- Up to -1 would be up to the last.
local waiters = ARGV[1] == "0" and {} or call("ZRANGE", KEYS[2], 0, ARGV[1] - 1, "WITHSCORES")
for _, part in ipairs(waiters) do reply[#reply + 1] = part end
return reply

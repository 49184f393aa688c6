#!lua flags=allow-oom
-- Counts a latch down, and opens it when nothing is left.
--
-- KEYS[1]  latch        hash: count, incarnation, valid (server µs until which a copy of its setting may come)
-- KEYS[2]  ops          hash: client -> how much it has counted down
-- ARGV[1]  incarnation  which latch is meant
-- ARGV[2]  client
-- ARGV[3]  from         how much the client knows to be counted
-- ARGV[4]  to           how much it has counted down in all
-- ARGV[5]  channel      where all who wait are told
--
-- Returns  what is left; -1 if that latch is not there any more.
-- Late     harmless: each part of a client's range counts once, and for its latch only.
-- Cost     O(1), and O(clients) when it opens.
local call = redis.call
local latch, ops, client, to = KEYS[1], KEYS[2], ARGV[2], tonumber(ARGV[4])
local kept = call("HMGET", latch, "count", "incarnation", "valid")
local count = tonumber(kept[1]) or 0
if count <= 0 or kept[2] ~= ARGV[1] then return -1 end
local seen = math.max(tonumber(call("HGET", ops, client)) or 0, tonumber(ARGV[3]))
if to > seen then count = count - (to - seen) end
if count > 0 then
  call("HSET", latch, "count", string.format("%d", count))
  if call("HSET", ops, client, string.format("%d", math.max(seen, to))) == 1 then
    local ends = call("PTTL", latch)
    call("PEXPIRE", ops, ends < 0 and 86400000 or math.max(ends, 1))
  end
  return count
end
call("PEXPIRE", ops, 0)
local time = call("TIME")
local late = math.ceil(((tonumber(kept[3]) or 0) - time[1] * 1000000 - time[2]) / 1000)
if late > 0 then
  -- A second copy of its setting is not to set it again.
  call("HSET", latch, "count", 0)
  call("PEXPIRE", latch, late)
else
  call("HDEL", latch, "count", "incarnation", "valid")
end
-- Without the right to publish, those who wait find it by looking.
redis.pcall("PUBLISH", ARGV[5], "open " .. kept[2])
return 0

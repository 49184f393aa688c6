#!lua flags=no-writes
-- Tells what is left of a latch.
--
-- KEYS[1]  latch   hash: count, incarnation, valid
-- KEYS[2]  ops     hash: client -> how much it has counted down
-- ARGV[1]  client
--
-- Returns  {count, incarnation, ms until it ends by itself, how much the client has counted down}; {0, "", 0, 0} if the
--          latch is open.
-- Late     harmless: reads only.
-- Cost     O(1).
local call = redis.call
local kept = call("HMGET", KEYS[1], "count", "incarnation")
local count = tonumber(kept[1]) or 0
if count <= 0 or not kept[2] then return {0, "", 0, 0} end
-- One that somebody made permanent is looked for as seldom as any.
local ends = call("PTTL", KEYS[1])
if ends < 0 then ends = 86400000 end
return {count, kept[2], ends, tonumber(call("HGET", KEYS[2], ARGV[1])) or 0}

-- The rule of entry: as many permits as the limit allows, which is the stored one, or else the one that the kind names.
-- When the first of the holds is over, ms; the stored limit.
local ends, set
-- Takes up the i-th semaphore.
local function at(i)
  used, queue, permits = KEYS[5 * i - 4], KEYS[5 * i - 3], KEYS[5 * i - 2]
  limit, alive = KEYS[5 * i - 1], KEYS[5 * i]
end
local function weigh(member) return tonumber(string.match(member, "|(%d+)$")) or 0 end
local function taken()
  if call("EXISTS", permits) == 0 then return 0 end
  local sum = tonumber(call("GET", used) or nil)
  if sum then return sum end
  sum = 0
  for _, member in ipairs(call("ZRANGE", permits, 0, -1)) do sum = sum + weigh(member) end
  return sum
end
local function note(sum)
  local ttl = call("PTTL", permits)
  if ttl == -2 then call("DEL", used) else call("SET", used, text(sum), "PX", math.max(ttl, 0) + 1000) end
end
local function prune()
  set = tonumber(call("GET", limit) or nil)
  -- A stored limit lives for 30 days beyond its last use.
  if set then grow(limit, 2592000000) end
  local over = call("ZCOUNT", permits, "-inf", text(ms))
  if over > 1000 then over, more = 1000, 1 end
  if over > 0 then
    local sum = taken()
    for _, member in ipairs(call("ZRANGE", permits, 0, over - 1)) do sum = sum - weigh(member) end
    call("ZREMRANGEBYRANK", permits, 0, over - 1)
    note(sum)
  end
  ends = tonumber(call("ZRANGE", permits, 0, 0, "WITHSCORES")[2]) or 0
end
-- Whether the first of the queue may fit at all, and whether it does; nil if it never will.
local function open() return true end
local function fits(kind, weight)
  local most = set or tonumber(kind) or 0
  if weight <= most then return taken() + weight <= most end
end
local function put(hold, _, weight, lease)
  local sum = taken()
  local new = call("ZADD", permits, "GT", text(ms + lease), hold .. "|" .. weight)
  grow(permits, lease)
  note(sum + new * weight)
  ends = ends > ms and math.min(ends, ms + lease) or ms + lease
  return ""
end
local function erase(member)
  if call("ZREM", permits, member) == 0 then return 0 end
  local sum = tonumber(call("GET", used) or nil)
  -- Without a sum the rest is counted when it matters.
  if sum then note(sum - weigh(member)) end
  return 1
end
local function drop(entry)
  local hold, weight = string.match(entry, "^(.-)|.-|(%d+)|")
  return erase(hold .. "|" .. weight)
end

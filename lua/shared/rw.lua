-- The rule of entry: readers together, a writer alone; an owner beside itself.
-- Takes up the i-th lock.
local function at(i)
  lock, queue, readers = KEYS[5 * i - 4], KEYS[5 * i - 3], KEYS[5 * i - 2]
  alive, fence = KEYS[5 * i - 1], KEYS[5 * i]
end
local function prune(owner)
  local own = sweep(owner)
  local over = call("ZCOUNT", readers, "-inf", text(ms))
  if over > 1000 then over, more = 1000, 1 end
  if over > 0 then call("ZREMRANGEBYRANK", readers, 0, over - 1) end
  ends = math.max(ends, tonumber(call("ZRANGE", readers, -1, -1, "WITHSCORES")[2]) or 0)
  return own
end
-- Whether the first of the queue may fit at all, and whether it does.
local function open() return call("EXISTS", lock) == 0 end
local function fits(kind) return kind == "r" or kind == "s" or call("EXISTS", readers) == 0 end
local function put(hold, kind, _, lease, token)
  if kind ~= "r" and kind ~= "s" then return write(hold, kind, lease, token) end
  call("ZADD", readers, "GT", text(ms + lease), hold)
  grow(readers, lease)
  ends = math.max(ends, ms + lease)
  local last = kind == "s" and call("GET", fence)
  return last and ":" .. last or ""
end
local function erase(hold) return call("HDEL", lock, hold) + call("ZREM", readers, hold) end
local function drop(entry) return erase(string.match(entry, "^[^|]+")) end

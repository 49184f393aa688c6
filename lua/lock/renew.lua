#!lua flags=allow-oom
-- Renews holds, and looks for those who wait: a waiter's sign of life and question for its turn.
--
-- KEYS[4i-3]  lock    of the i-th id; hash: hold id -> count:deadline:since[:token], server ms
-- KEYS[4i-2]  queue   zset: hold|kind|weight|lease|grant -> ticket
-- KEYS[4i-1]  alive   zset: client -> server ms at which it counts as gone
-- KEYS[4i]    fence   string: the last fencing token
-- ARGV[1]     inbox   the prefix of every client's channel
-- ARGV[2]     waiter  ms, after which a silent client counts as gone
-- ARGV[3i]    entry   hold|kind|weight|lease|grant of the i-th id
-- ARGV[3i+1]  lease   ms that a hold gets at least from now; 0 only asks
-- ARGV[3i+2]  count   what the hold count is now
--
-- Returns  {µs, 1 if more waiters can be served, then a status and a value for each id}:
--          0 gone, 1 held and ":token" or "", 2 queued and the ms until a look is worth while,
--          5 unfenced (a fenced waiter whose owner meanwhile holds without a token), -1 and an error's text.
-- Late     harmless: gives nothing to an id that neither holds nor waits.
-- Cost     O(log n) in the queue for each id, and up to 100 dead waiters in all.
local call = redis.call
local inbox, waiter = ARGV[1], tonumber(ARGV[2])
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
-- shared: clock
local ms = (us - us % 1000) / 1000
local more, budget, news = 0, 100, {}
-- Not tostring or "..", which spoil numbers of this size.
local function text(number) return string.format("%d", number) end
local function grow(key, ttl) if call("PTTL", key) < ttl then call("PEXPIRE", key, ttl) end end
-- end
-- shared: hold
-- When the last hold of the lock that was pruned last is over, ms.
local latest = 0
-- Removes what has run out; returns the token (":n", or "" if unfenced) of the hold that the owner has, if it has one.
local function prune(lock, owner)
  local token
  latest = 0
  local holds = call("HGETALL", lock)
  for i = 1, #holds, 2 do
    local deadline, own = string.match(holds[i + 1], "^%d+:(%d+):%d+(.*)$")
    deadline = tonumber(deadline) or 0
    if deadline <= ms then
      call("HDEL", lock, holds[i])
    elseif owner and string.sub(holds[i], 1, #owner + 1) == owner .. "/" then
      token = token or own
    end
    latest = math.max(latest, deadline)
  end
  return token
end
local function mint(fence)
  if tonumber(call("GET", fence) or 0) < us then call("SET", fence, text(us)) else call("INCR", fence) end
  call("PEXPIRE", fence, 86400000)
  return ":" .. call("GET", fence)
end
local function put(lock, hold, lease, token)
  latest = math.max(latest, ms + lease)
  call("HSETNX", lock, hold, "1:" .. text(ms + lease) .. ":" .. text(ms) .. token)
  grow(lock, lease)
end
-- end
-- shared: waiter
-- The ms until a look may find something new: at once if dead waiters are left, else when the last hold is over.
local function look_in(longest)
  return more == 1 and 0 or latest > ms and latest - ms or longest
end
-- end
-- shared: grant
local function leave(queue, alive, entry)
  local left = call("ZREM", queue, entry)
  -- Not DEL, which would take data of another type as well.
  if call("EXISTS", queue) == 0 then redis.pcall("ZREMRANGEBYSCORE", alive, "-inf", "+inf") end
  return left
end
-- Gives a free lock to the first waiter that lives, and returns its token if that is `own`.
-- A dead waiter's entry goes at once: passed over but kept, it would leave the lock free behind it.
local function grant(lock, queue, alive, fence, own)
  while call("EXISTS", lock) == 0 do
    local entry = call("ZRANGE", queue, 0, 0)[1]
    if not entry then return end
    if budget == 0 then more = 1 return end
    budget = budget - 1
    local hold, client, kind, lease, first = string.match(entry, "^(.-/(.-)%..-)|(.-)|.-|(%d+)|(%d+)$")
    if entry == own then
      local token = kind == "f" and mint(fence) or ""
      leave(queue, alive, entry)
      put(lock, hold, tonumber(lease), token)
      return token
    end
    -- What is no entry of ours can hold nothing, and goes like the dead.
    if hold and tonumber(call("ZSCORE", alive, client) or 0) > ms then
      local token = kind == "f" and mint(fence) or ""
      local message = "granted " .. text(us) .. " " .. entry .. token
      local told = redis.pcall("PUBLISH", inbox .. client, message)
      -- Without the right to publish the entry stays, and its own look grants it.
      if type(told) == "table" then return end
      if told > 0 then
        news[#news + 1] = message
        put(lock, hold, tonumber(first), token)
      end
    end
    leave(queue, alive, entry)
  end
end
-- end
local function extend(lock, hold, value, lease, count)
  local old, deadline, rest = string.match(value, "^(%d+):(%d+):(.*)$")
  if lease == 0 and old == count then return end
  call("HSET", lock, hold, count .. ":" .. text(math.max(tonumber(deadline), ms + lease)) .. ":" .. rest)
  grow(lock, lease)
end
local function one(i)
  local lock, queue, alive, fence = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i]
  local entry, lease, count = ARGV[3 * i], tonumber(ARGV[3 * i + 1]), ARGV[3 * i + 2]
  local hold, owner, client, kind, full = string.match(entry, "^((.-)/(.-)%..-)|(.-)|.-|(.-)|")
  local token = prune(lock, owner)
  local value = call("HGET", lock, hold)
  if value then
    extend(lock, hold, value, lease, count)
    return 1, string.match(value, "^%d+:%d+:%d+(.*)$")
  end
  if not call("ZSCORE", queue, entry) then
    grant(lock, queue, alive, fence)
    return 0, 0
  end
  if token then
    leave(queue, alive, entry)
    if token == "" and kind == "f" then return 5, 0 end
    put(lock, hold, tonumber(full), token)
    return 1, token
  end
  grow(queue, waiter)
  call("ZADD", alive, "GT", text(ms + waiter), client)
  grow(alive, waiter)
  token = grant(lock, queue, alive, fence, entry)
  if token then return 1, token end
  return 2, look_in(waiter)
end

local reply = {us, 0}
for i = 1, #KEYS / 4 do
  local ok, status, value = pcall(one, i)
  if not ok then status, value = -1, type(status) == "table" and status.err or status end
  reply[#reply + 1], reply[#reply + 2] = status, value
end
reply[2] = more
return reply

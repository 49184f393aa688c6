#!lua flags=allow-oom
-- Releases holds and queue places, and grants what that frees.
--
-- KEYS[4i-3]  lock    the i-th; hash: hold id -> count:deadline:since[:token], server ms
-- KEYS[4i-2]  queue   zset: hold|kind|weight|lease|grant -> ticket
-- KEYS[4i-1]  alive   zset: client -> server ms at which it counts as gone
-- KEYS[4i]    fence   string: the last fencing token
-- ARGV[1]     inbox   the prefix of every client's channel
-- ARGV[2...]  for each lock how many entries, and these: hold|kind|weight|lease|grant, or !hold by force
--
-- Returns  1 if the only entry held and nobody waits; else {1 if more waiters can be served,
--          then for each entry 1 released, 0 absent, or why the lock's keys could not be used;
--          then the messages that were sent, as the one who releases may know whom they are for}.
-- Late     harmless: creates nothing, and a hold id is never used again.
-- Cost     O(log n) in the queue for each entry, and up to 100 dead waiters in all.
local call = redis.call
if #ARGV == 3 and call("EXISTS", KEYS[2]) == 0 then
  if call("HDEL", KEYS[1], string.match(ARGV[3], "^[^|]+")) == 1 then return 1 end
end

local inbox = ARGV[1]
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
local function revoke(lock, hold)
  local held, client = call("HDEL", lock, hold), string.match(hold, "/(.-)%.")
  if held == 1 and client then redis.pcall("PUBLISH", inbox .. client, "revoked " .. hold) end
  return held
end
local function remove(k, queued, entry)
  if string.byte(entry) == 33 then return revoke(KEYS[k], string.sub(entry, 2)) end
  local held = call("HDEL", KEYS[k], string.sub(entry, 1, string.find(entry, "|", 1, true) - 1))
  return held == 0 and queued and leave(KEYS[k + 1], KEYS[k + 2], entry) or held
end
local function serve(k)
  prune(KEYS[k])
  grant(KEYS[k], KEYS[k + 1], KEYS[k + 2], KEYS[k + 3])
end

local reply, at = {0}, 2
for k = 1, #KEYS, 4 do
  local queued, last = call("EXISTS", KEYS[k + 1]) == 1, at + tonumber(ARGV[at])
  for i = at + 1, last do
    local ok, status = pcall(remove, k, queued, ARGV[i])
    -- pcall gives the error's text and not a table, from Redis 7 on.
    reply[#reply + 1] = (ok or type(status) == "string") and status or status.err
  end
  -- What keeps a waiter from being served is the waiter's affair, and told it when it looks.
  if queued then pcall(serve, k) end
  at = last + 1
end
reply[1] = more
for _, message in ipairs(news) do reply[#reply + 1] = message end
return reply

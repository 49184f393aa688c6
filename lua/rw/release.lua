#!lua flags=allow-oom
-- Releases holds and queue places, and grants what that frees.
--
-- KEYS[5i-4]  lock     the i-th; hash: a writer's hold id -> count:deadline:since[:token], server ms
-- KEYS[5i-3]  queue    zset: hold|kind|weight|lease|grant -> ticket
-- KEYS[5i-2]  readers  zset: a reader's hold id -> deadline, server ms
-- KEYS[5i-1]  alive    zset: client -> server ms at which it counts as gone
-- KEYS[5i]    fence    string: the last fencing token
-- ARGV[1]     inbox    the prefix of every client's channel
-- ARGV[2...]  for each lock how many entries, and these: hold|kind|weight|lease|grant, or !hold by force
--
-- Returns  1 if the only entry held and nobody waits; else {1 if more waiters can be served,
--          then for each entry 1 released, 0 absent, or why the lock's keys could not be used;
--          then the messages that were sent, as the one who releases may know whom they are for}.
-- Late     harmless: creates nothing, and a hold id is never used again.
-- Cost     O(log n) in queue and readers for each entry, and up to 100 waiters granted or found dead in all.
local call = redis.call
local items = #KEYS / 5
if #ARGV == 3 and call("EXISTS", KEYS[2]) == 0 then
  local hold, kind = string.match(ARGV[3], "^([^|]+)|([^|]*)")
  local reads = kind == "r" or kind == "s"
  if hold and (reads and call("ZREM", KEYS[3], hold) or not reads and call("HDEL", KEYS[1], hold)) == 1 then
    return 1
  end
end

local inbox = ARGV[1]
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
local lock, queue, readers, alive, fence
-- shared: clock
local ms = (us - us % 1000) / 1000
local more, budget, news = 0, 100, {}
-- Not tostring or "..", which spoil numbers of this size.
local function text(number) return string.format("%d", number) end
-- With nothing to add it touches nothing: PEXPIRE by 0 would delete a key that somebody has made permanent.
local function grow(key, ttl) if ttl > 0 and call("PTTL", key) < ttl then call("PEXPIRE", key, ttl) end end
-- end
-- shared: hash
-- When the last hold is over, ms.
local ends
-- Removes what has run out; returns the token (":n", or "" if unfenced) of the hold that the owner has, if it has one.
local function sweep(owner)
  local token
  ends = 0
  local holds = call("HGETALL", lock)
  for i = 1, #holds, 2 do
    local deadline, own = string.match(holds[i + 1], "^%d+:(%d+):%d+(.*)$")
    deadline = tonumber(deadline) or 0
    if deadline <= ms then
      call("HDEL", lock, holds[i])
    elseif owner and string.sub(holds[i], 1, #owner + 1) == owner .. "/" then
      token = token or own
    end
    ends = math.max(ends, deadline)
  end
  return token
end
local function mint()
  if tonumber(call("GET", fence) or 0) < us then call("SET", fence, text(us)) else call("INCR", fence) end
  call("PEXPIRE", fence, 86400000)
  return ":" .. call("GET", fence)
end
-- Writes a hold, with a token if it has to have one.
local function write(hold, kind, lease, token)
  token = token or kind == "f" and mint() or ""
  ends = math.max(ends, ms + lease)
  call("HSETNX", lock, hold, "1:" .. text(ms + lease) .. ":" .. text(ms) .. token)
  grow(lock, lease)
  return token
end
-- end
-- shared: rw
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
-- end
-- shared: grant
local function leave(entry)
  local left = call("ZREM", queue, entry)
  -- Not DEL, which would take data of another type as well.
  if call("EXISTS", queue) == 0 then redis.pcall("ZREMRANGEBYSCORE", alive, "-inf", "+inf") end
  return left
end
-- Tells a client that some of its waiters hold now; true if it does not hear, and they are gone.
local function deaf(client, entries, words)
  local message = "granted " .. text(us) .. " " .. table.concat(words, " ")
  local told = redis.pcall("PUBLISH", inbox .. client, message)
  -- Without the right to publish they stay in the queue, and their own looks let them in.
  local denied = type(told) == "table"
  for _, entry in ipairs(entries) do
    if denied or told == 0 then drop(entry) end
    if not denied then leave(entry) end
  end
  if not denied and told > 0 then news[#news + 1] = message end
  return told == 0
end
-- Lets in those at the head of the queue that fit; returns the token of `mine` if that is one of them.
-- A dead waiter's entry goes at once: passed over but kept, it would keep others out.
local function grant(mine)
  local token, anew
  repeat
    local clients, entries, words, from = {}, {}, {}, 0
    while open() do
      local entry = call("ZRANGE", queue, from, from)[1]
      if not entry then break end
      local hold, client, kind, weight, lease, first =
        string.match(entry, "^(.-/(.-)%..-)|(.-)|(%d+)|(%d+)|(%d+)$")
      local fit = hold and fits(kind, tonumber(weight))
      if fit == false then break end
      if budget == 0 then more = 1 break end
      budget = budget - 1
      if fit and entry == mine then
        leave(entry)
        token = put(hold, kind, weight, tonumber(lease))
      elseif fit and (entries[client] or tonumber(call("ZSCORE", alive, client) or 0) > ms) then
        if not entries[client] then entries[client], words[client], clients[#clients + 1] = {}, {}, client end
        local list, said = entries[client], words[client]
        list[#list + 1], said[#said + 1] = entry, entry .. put(hold, kind, weight, tonumber(first))
        from = from + 1
      else
        -- Dead, or too heavy for ever, or no entry of ours.
        leave(entry)
      end
    end
    anew = false
    for _, client in ipairs(clients) do anew = deaf(client, entries[client], words[client]) or anew end
  until not anew
  return token
end
-- end
-- shared: release
local function revoke(hold)
  local held, client = erase(hold), string.match(hold, "/(.-)%.")
  if held > 0 and client then redis.pcall("PUBLISH", inbox .. client, "revoked " .. hold) end
  return held
end
local function remove(queued, entry)
  if string.byte(entry) == 33 then return revoke(string.sub(entry, 2)) end
  local held = drop(entry)
  return held == 0 and queued and leave(entry) or held
end
local function serve()
  prune()
  grant()
end

local reply, from = {0}, 2
for i = 1, items do
  at(i)
  local queued, last = call("EXISTS", queue) == 1, from + tonumber(ARGV[from])
  for k = from + 1, last do
    local ok, status = pcall(remove, queued, ARGV[k])
    -- pcall gives the error's text and not a table, from Redis 7 on.
    reply[#reply + 1] = (ok or type(status) == "string") and status or status.err
  end
  -- What keeps a waiter from being served is the waiter's affair, and told it when it looks.
  if queued then pcall(serve) end
  from = last + 1
end
reply[1] = more
for _, message in ipairs(news) do reply[#reply + 1] = message end
return reply
-- end

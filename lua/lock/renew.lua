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
local items = #KEYS / 4
local lock, queue, alive, fence
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
-- shared: lock
-- The rule of entry: one owner at a time, as often as it likes.
-- Takes up the i-th lock.
local function at(i) lock, queue, alive, fence = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i] end
local prune = sweep
-- Whether the first of the queue may fit at all, and whether it does.
local function open() return call("EXISTS", lock) == 0 end
local function fits() return true end
local function put(hold, kind, _, lease) return write(hold, kind, lease) end
local function erase(hold) return call("HDEL", lock, hold) end
local function drop(entry) return erase(string.match(entry, "^[^|]+")) end
-- end
-- shared: lock_again
-- What becomes of an owner that holds already, whatever the queue: a status, and a token; nil if it does not hold.
local function again(own, _, hold, kind, _, lease)
  if not own then return end
  if own == "" and kind == "f" then return 5 end
  return 1, write(hold, kind, lease, own)
end
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
-- shared: waiter
-- The client lives, and so do its places in the queue.
local function live(client)
  grow(queue, waiter)
  call("ZADD", alive, "GT", text(ms + waiter), client)
  grow(alive, waiter)
end
-- The ms until a look may find something new: at once if dead waiters are left, else when the holds in the way end.
local function look_in() return more == 1 and 0 or ends > ms and ends - ms or waiter end
-- end
-- shared: prolong
-- Extends a hold, and returns its token; nil if it is not there.
local function prolong(hold, lease, count)
  local value = call("HGET", lock, hold)
  if not value then return end
  local old, deadline, since, token = string.match(value, "^(%d+):(%d+):(%d+)(.*)$")
  if lease > 0 or old ~= count then
    local later = text(math.max(tonumber(deadline), ms + lease))
    call("HSET", lock, hold, count .. ":" .. later .. ":" .. since .. token)
    grow(lock, lease)
  end
  return token
end
-- end
local function extend(hold, _, _, lease, count) return prolong(hold, lease, count) end
-- shared: renew
local function one(i)
  local entry, lease, count = ARGV[3 * i], tonumber(ARGV[3 * i + 1]), ARGV[3 * i + 2]
  local hold, owner, client, kind, weight, full =
    string.match(entry, "^((.-)/(.-)%..-)|(.-)|(%d+)|(%d+)|")
  at(i)
  local own = prune(owner)
  local token = extend(hold, kind, weight, lease, count)
  if token then return 1, token end
  if not call("ZSCORE", queue, entry) then
    grant()
    return 0, 0
  end
  local status
  status, token = again(own, owner, hold, kind, weight, tonumber(full), "w")
  if status then
    leave(entry)
    grant()
    return status, token or 0
  end
  live(client)
  token = grant(entry)
  if token then return 1, token end
  return 2, look_in()
end

local reply = {us, 0}
for i = 1, items do
  local ok, status, value = pcall(one, i)
  if not ok then status, value = -1, type(status) == "table" and status.err or status end
  reply[#reply + 1], reply[#reply + 2] = status, value
end
reply[2] = more
return reply
-- end

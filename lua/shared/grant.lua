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

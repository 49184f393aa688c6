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

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

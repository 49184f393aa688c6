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

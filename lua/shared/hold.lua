local function prune(lock)
  local holds = call("HGETALL", lock)
  for i = 1, #holds, 2 do
    local deadline = tonumber(string.match(holds[i + 1], "^%d+:(%d+):%d+"))
    if not deadline or deadline <= ms then call("HDEL", lock, holds[i]) end
  end
end
local function mint(fence)
  if tonumber(call("GET", fence) or 0) < us then call("SET", fence, text(us)) else call("INCR", fence) end
  call("PEXPIRE", fence, 86400000)
  return ":" .. call("GET", fence)
end
local function put(lock, hold, lease, token)
  call("HSETNX", lock, hold, "1:" .. text(ms + lease) .. ":" .. text(ms) .. token)
  grow(lock, lease)
end

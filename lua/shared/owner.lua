-- The token (":n", or "" if unfenced) of the hold that the owner has; nil if it has none.
local function held_by(lock, owner)
  local holds = call("HGETALL", lock)
  for i = 1, #holds, 2 do
    if string.sub(holds[i], 1, #owner + 1) == owner .. "/" then
      return string.match(holds[i + 1], "^%d+:%d+:%d+(.*)$")
    end
  end
end

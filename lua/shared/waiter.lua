-- The token (":n", or "" if unfenced) of the hold that the owner has; nil if it has none.
local function held_by(lock, owner)
  local holds = call("HGETALL", lock)
  for i = 1, #holds, 2 do
    if string.sub(holds[i], 1, #owner + 1) == owner .. "/" then
      return string.match(holds[i + 1], "^%d+:%d+:%d+(.*)$")
    end
  end
end
-- The ms until a look may find something new: at once if dead waiters are left, else when the last lease is over.
local function look_in(lock, longest)
  local left = call("PTTL", lock)
  return more == 1 and 0 or left < 0 and longest or left
end

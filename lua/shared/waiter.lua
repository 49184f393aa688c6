-- The ms until a look may find something new: at once if dead waiters are left, else when the last lease is over.
local function look_in(lock, longest)
  local left = call("PTTL", lock)
  return more == 1 and 0 or left < 0 and longest or left
end

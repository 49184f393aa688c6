-- The ms until a look may find something new: at once if dead waiters are left, else when the last hold is over.
local function look_in(longest)
  return more == 1 and 0 or latest > ms and latest - ms or longest
end

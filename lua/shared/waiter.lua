-- The client lives, and so do its places in the queue.
local function live(client)
  grow(queue, waiter)
  call("ZADD", alive, "GT", text(ms + waiter), client)
  grow(alive, waiter)
end
-- The ms until a look may find something new: at once if dead waiters are left, else when the holds in the way end.
local function look_in() return more == 1 and 0 or ends > ms and ends - ms or waiter end

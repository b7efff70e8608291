-- Votes for the token ARGV[1]: takes the lock KEYS[1] of this server with a ttl of ARGV[2].
-- KEYS[2]  the fence counter
-- ARGV[3]  the greatest fence number that the client has seen on this connection; 0: none
-- Returns
-- number            granted: greater than the numbers of all earlier grants and confirmations
-- {holder, free in} busy (free in -1 ms: the key never expires)
-- {type}            KEYS[1] is not a lock
local token, ttl, seen = ARGV[1], ARGV[2], ARGV[3]

if type(holder) == 'table' then
  return {redis.call('TYPE', KEYS[1])}
end
if holder and holder ~= token then
  return {string.sub(holder, 1, 64), redis.call('PTTL', KEYS[1])}
end
local number, failure = next_fence(seen, 0)
if not number then
  return failure
end
grant(token, ttl)
return number

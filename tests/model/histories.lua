-- Runs a history: for each of its calls ARGV has the time in microseconds, the inboxes that are
-- connected, the name of the script, the number of its arguments, and these. Answers with a line for
-- each call: what it replied, which messages it sent, and what is in the keys then.
--
-- The scripts stand where their names are written in capitals. Of the functions of the server that
-- they call, only those are replaced that know about time and subscribers. The times are so far in
-- the future that the server itself lets nothing expire.
local now_us, now, connected, messages

local function with_clock(call)
  return function(name, ...)
    local args = {...}
    if name == 'TIME' then
      return {string.format('%d', now_us / 1000000), string.format('%d', now_us % 1000000)}
    elseif name == 'PTTL' then
      local expiry = call('PEXPIRETIME', args[1])
      return expiry < 0 and expiry or expiry - now
    elseif name == 'PEXPIRE' then
      return call('PEXPIREAT', args[1], now + args[2])
    elseif name == 'SET' and args[3] == 'PX' then
      return call('SET', args[1], args[2], 'PXAT', now + args[4])
    elseif name == 'PUBSUB' then
      return {args[2], string.find(connected, args[2], 1, true) and 1 or 0}
    elseif name == 'PUBLISH' then
      if not string.find(connected, args[1], 1, true) then
        return 0
      end
      table.insert(messages, args[2])
      return 1
    end
    return call(name, ...)
  end
end

local server = redis
local scripts = {}
do
  local redis = {
    call = with_clock(server.call),
    pcall = with_clock(server.pcall),
    error_reply = server.error_reply,
  }
  function scripts.acquire(ARGV)
    ACQUIRE
  end
  function scripts.release(ARGV)
    RELEASE
  end
  function scripts.renew(ARGV)
    RENEW
  end
  function scripts.command(ARGV)
    redis.call(unpack(ARGV))
    return 'OK'
  end
end

local function spell(reply)
  if type(reply) == 'number' then
    return string.format('%.0f', reply)
  elseif type(reply) ~= 'table' then
    return reply == false and 'nil' or tostring(reply)
  elseif reply.err then
    return string.match(reply.err, '%a+')
  end
  local parts = {}
  for place, part in ipairs(reply) do
    parts[place] = spell(part)
  end
  return reply.ok or '[' .. table.concat(parts, ' ') .. ']'
end

local function expiry(key)
  return server.call('PEXPIRETIME', key)
end

local function peers()
  local parts = server.call('HGETALL', KEYS[3])
  local entries = {}
  for place = 1, #parts, 2 do
    table.insert(entries, parts[place] .. '=' .. parts[place + 1])
  end
  table.sort(entries)
  return entries
end

local lines = {}
local place = 1
while place <= #ARGV do
  local before = now
  now_us, connected, messages = tonumber(ARGV[place]), ARGV[place + 1], {}
  now = math.floor(now_us / 1000)
  for _, key in ipairs(now == before and {} or KEYS) do
    local at = expiry(key)
    if at >= 0 and now > at then
      server.call('DEL', key)
    end
  end
  local last = place + 3 + ARGV[place + 3]
  local reply = scripts[ARGV[place + 2]]({unpack(ARGV, place + 4, last)})
  place = last + 1
  local holder = server.pcall('GET', KEYS[1])
  table.insert(lines, spell({
    reply,
    messages,
    type(holder) == 'table' and 'no lock' or holder,
    expiry(KEYS[1]),
    server.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'),
    expiry(KEYS[2]),
    peers(),
    expiry(KEYS[3]),
    server.call('GET', KEYS[4]),
  }))
end
server.call('DEL', unpack(KEYS))
return lines

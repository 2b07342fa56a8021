-- extremes.lua - calls everything that a script can reach, with everything that a script can have.
--
-- In front of this stand two tables that the host's own were listed into: `functions`, by name, and `methods`, names by type.
-- What a call returns is an argument of later ones: rows that are gone, sequences that were freed, lists of themselves. The
-- calls of a number are always the same ones.

local random
local function draw(n) -- 1 to n
  random = (random * 6364136223846793005 + 1442695040888963407)
  return (random >> 33) % n + 1
end

local function self_reference()
  local t = { 1, 2, 3 }
  t[4], t.self = t, t
  return t
end

-- A list that changes while it is read, and that drops what it was read with.
local function restless(values)
  local function change(t, k)
    rawlen(t)
    for i = 1, #values do
      if draw(4) == 1 and type(values[i]) == "userdata" then pcall(values[i].free, values[i]) end
    end
    if draw(2) == 1 then values[draw(#values)] = false end
    return k
  end
  return setmetatable({ 1, nil, 3 }, { __index = change, __len = function() return 1 << 40 end, __newindex = change,
                                       __call = change, __add = change, __tostring = function() return "x" end })
end

local function plain_values()
  local values = {
    math.mininteger, math.mininteger + 1, -(1 << 53), -(1 << 31) - 1, -(1 << 31), -2, -1, 0, 1, 2, 3, 5, 7, 63, 64,
    (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 53, math.maxinteger - 1, math.maxinteger, 0.5, -0.0, 1e-320, 1e38, 1e300, -1e300,
    1 / 0, -1 / 0, 0 / 0, "", "x", "target", "assistant", "last", "all", "none", "scores", "logits", "int32", "repetition",
    "eos", "\xff\0", "9223372036854775807", "0x1p+1000", ("y"):rep(5000), "x * 2 + 1", "%d%s%q", "(a*)*b", true, false,
    {}, { 1 }, { 1, 1 }, { 5, 6, 7 }, { 0.5, 0.25 }, { -1 }, { math.maxinteger }, { 1e300, 0 / 0 }, { "x", {} },
    { { 1, 2 }, { 3 } }, { [1] = 1, [1 << 40] = 2 }, self_reference(), print,
    { row = 1, ids = { 5 }, n_new = 1 }, { { row = 1, ids = { 5 }, n_new = 1 } },
  }
  values[#values + 1] = restless(values)
  local good, thread = pcall(coroutine.create, print) -- strategies alone have them
  if good then values[#values + 1] = thread end
  return values
end

local function pick(list) return list and #list > 0 and list[draw(#list)] or nil end

local operators = {
  function(a, b) return a + b end, function(a, b) return a - b end, function(a, b) return a * b end,
  function(a, b) return a / b end, function(a, b) return a // b end, function(a, b) return a % b end,
  function(a, b) return a ^ b end, function(a, b) return a .. b end, function(a, b) return a << b end,
  function(a, b) return a == b end, function(a, b) return a < b end, function(a, b) return a[b] end,
  function(a, b, c) a[b] = c end, function(a, b) return a(b) end, function(a) return -a end, function(a) return #a end,
  function(a) return tostring(a) end, function(a) for k in pairs(a) do return k end end,
  function(a) for i, x in ipairs(a) do if i > 3 then return x end end end,
}

local function type_of(object)
  local text = tostring(object)
  for type, mark in pairs { ["cadenza.vec"] = "^v[ae][cl]", ["cadenza.ids"] = "^ids", ["cadenza.batch"] = "^scores",
                            ["cadenza.bitset"] = "^bitset", ["cadenza.expr"] = "^formula" } do
    if text:find(mark) then return type end
  end
  return pcall(function() return object.truncate end) and "cadenza.seq" or nil
end

-- Everything there is, by type; what is called joins it.
local function remember(objects, values, x)
  local type = type(x) == "userdata" and type_of(x)
  if type then
    objects[type] = objects[type] or {}
    local list = objects[type]
    if #list < 8 then list[#list + 1] = x else list[draw(8)] = x end
  end
  if x ~= nil and draw(3) == 1 then values[draw(#values)] = x end
end

local function make(objects, values, ctx)
  for _, build in ipairs {
    function() return vec.from { 1, 2, 3 } end, function() return vec.new(7, 0) end, function() return bitset.new(70) end,
    function() return vec.expr("x * a + 1", { "a" }) end, function() return ctx:seq_new() end,
    function() return select(2, vec.from { 3, 1, 2 }:topk(2)) end,
    function() return ctx:seq_fork(ctx:seq_of_row(1)):append { 5, 6, 7, 8 } end,
    function() return ctx:seq_of_row(1) end, function() return ctx:input_ids(1) end,
    function() return ctx:scratch_scores(2) end, function() return ctx.rng end,
  } do
    local good, object = pcall(build)
    if good then remember(objects, values, object) end
  end
end

local function arguments(values, objects)
  local args = table.pack()
  args.n = draw(6) - 1
  for i = 1, args.n do
    local list = draw(3) == 1 and objects[pick(objects.types)]
    args[i] = list and #list > 0 and pick(list) or pick(values)
  end
  if args.n > 1 and draw(4) == 1 then args[2] = args[1] end
  return args
end

local function call_one(objects, values, self, trace)
  local args, what, f = arguments(values, objects), draw(12), nil
  local type = pick(objects.types)
  local object = type == "ctx" and self.ctx or objects[type] and #objects[type] > 0 and pick(objects[type])
  local name
  if what <= 2 then
    name = pick(functions.names)
    f = functions[name]
  elseif what == 3 then
    name, f = "operator", pick(operators)
  elseif object then
    name = pick(methods[type == "ctx" and self.type or type])
    local good, method = pcall(function() return object[name] end)
    if not good or not name then return end
    f = method
    if draw(2) == 1 then -- what it holds, given to itself
      local held, ids = pcall(function() return object:ids() end)
      if held then args[1], args.n = ids, math.max(args.n, 1) end
    end
    table.insert(args, 1, object)
    args.n = args.n + 1
  else
    return
  end
  if trace then
    local shown = { name }
    for i = 1, args.n do shown[i + 1] = tostring(args[i]):sub(1, 20) end
    print(table.concat(shown, " "))
  end
  local results = table.pack(pcall(f, table.unpack(args, 1, args.n)))
  for i = 2, math.min(results.n, 4) do
    if results[1] then remember(objects, values, results[i]) end
  end
end

-- One method with each number in each place; which one, the number of the case says.
local function sweep(objects, values, self, seed)
  local all = {}
  for type, names in pairs(methods) do
    for _, name in ipairs(names) do all[#all + 1] = { type, name } end
  end
  local type, name = table.unpack(all[seed % #all + 1])
  local list = type == self.type and { self.ctx } or objects[type] or {}
  for _, object in ipairs(list) do
    for place = 1, 3 do
      for i = 1, 30 do
        local args = { 1, 1, 1 }
        args[place] = values[i]
        pcall(function() return object[name](object, table.unpack(args)) end)
      end
    end
  end
end

local function play(seed, n, trace, self, given)
  random = seed
  for i = 1, 4 do draw(2) end
  local values, objects = plain_values(), { types = { "ctx", "ctx", "ctx", "cadenza.seq", "cadenza.seq" } }
  for type in pairs(methods) do
    if type:sub(1, 8) == "cadenza." then objects.types[#objects.types + 1] = type end
  end
  make(objects, values, self.ctx)
  for _, object in ipairs(given) do remember(objects, values, object) end
  sweep(objects, values, self, seed)
  for _ = 1, n do call_one(objects, values, self, trace) end
end

local params = { seed = { 1, 0, 1e9, "the calls of which number", integer = true },
                 calls = { 40, 0, 1e6, "how many", integer = true }, trace = { false, "print them" } }

-- What a function may return: anything. Of what it draws from, what it was given too.
local function anything(given)
  local values = plain_values()
  for _, x in ipairs(given) do values[#values + 1] = x end
  return pick(values)
end

local function in_row(p, ctx, more, given)
  play(p.seed + more, p.calls // 2, p.trace, { ctx = ctx, type = "cadenza.context" }, given)
end

local function without_row(p, more) play(p.seed + more, p.calls // 4, p.trace, {}, {}) end

local function a_state() return { n = 1, v = vec.new(5, 1), b = bitset.new(9), t = { 1, { 2 } } } end

local function accept(p, state, token, ctx)
  in_row(p, ctx, 1, { state, state.v, state.b })
  state.n = state.n + 1
end

return {
  cadenza.strategy {
    id = "org.example.extremes", version = "1.0.0", params = params, rewinds = true,
    create = function(p) without_row(p, 2) end,
    run = function(ctx)
      local p = ctx.params
      local scores = ctx:forward()
      play(p.seed, p.calls, p.trace, { ctx = ctx, type = "cadenza.decoder" }, { scores, scores:row(1), ctx:input_ids(1) })
      if not ctx:done() then ctx:append(ctx:argmax(ctx:process(ctx:forward()))) end
    end,
  },
  cadenza.processor {
    id = "org.example.extremes-row", version = "1.0.0", params = params, needs_ids = true,
    begin = a_state, accept = accept,
    apply = function(p, ids, row, ctx)
      play(p.seed, p.calls, p.trace, { ctx = ctx, type = "cadenza.context" }, { row, ids, ctx.state, ctx.state.v, ctx.state.b })
    end,
  },
  cadenza.processor {
    id = "org.example.extremes-batch", version = "1.0.0", params = params, batched = true,
    create = function(p) without_row(p, 2) end,
    idle = function(p) without_row(p, 3) return false end,
    begin = a_state, accept = accept,
    apply = function(p, ids, rows, ctx)
      in_row(p, ctx, 0, { rows, rows, rows:row(1), rows:row(#rows), ids[1], ids[#ids], ids })
      return anything { rows, ids }
    end,
  },
  cadenza.processor {
    id = "org.example.extremes-companion", version = "1.0.0", params = params,
    companion = function(p, row, ctx)
      in_row(p, ctx, 4, {})
      if draw(8) == 1 then return anything {} end
      return { from = draw(3) == 1 and anything {} or draw(4) - 1, prefix = draw(2) == 1 and anything {} or nil,
               mask = draw(4) == 1 and anything {} or nil, stays = anything {} }
    end,
    apply = function(p, ids, row, ctx)
      local good, other = pcall(function() return ctx:companion_logits() end)
      in_row(p, ctx, 0, { row, ids, good and other or row })
      pcall(function() return ctx:companion_logits(anything {}) end)
    end,
  },
  cadenza.criterion {
    id = "org.example.extremes-stop", version = "1.0.0", params = params,
    create = function(p) without_row(p, 2) end,
    idle = function(p) without_row(p, 3) return false end,
    begin = a_state, accept = accept,
    test = function(p, ids, ctx)
      in_row(p, ctx, 0, { ids, ctx.state.v, ctx.state.b })
      return draw(3) == 1 and anything {}
    end,
  },
  cadenza.drafter {
    id = "org.example.extremes-draft", version = "1.0.0", params = params,
    create = function(p) without_row(p, 2) end,
    begin = function(ctx) in_row(ctx.params, ctx, 5, {}) end,
    propose = function(p, ids, room, ctx)
      in_row(p, ctx, 0, { ids })
      if draw(3) == 1 then return anything { ids, room } end
      local tokens = {}
      for i = 1, draw(9) do tokens[i] = draw(3) == 1 and anything {} or draw(900) end
      return tokens
    end,
    judged = function(p, n_proposed, n_accepted, ctx) in_row(p, ctx, 6, { n_proposed, n_accepted }) end,
  },
  cadenza.observer {
    id = "org.example.extremes-watch", version = "1.0.0", params = params,
    create = function(p) without_row(p, 2) end,
    begin = function(ctx) in_row(ctx.params, ctx, 5, {}) end,
    stage = function(p, by, before, after, ctx) in_row(p, ctx, 0, { before, after }) end,
    scores = function(p, before, after, ctx) in_row(p, ctx, 1, { before, after }) end,
    token = function(p, token, ctx) in_row(p, ctx, 2, { token }) end,
    stop = function(p, reason, text, ctx) in_row(p, ctx, 3, { reason, text }) end,
    rewind = function(p, n, ctx) in_row(p, ctx, 4, { n }) end,
    reorder = function(p, parents, ctx) in_row(p, ctx, 5, { parents }) end,
    finish = function(p, ctx) in_row(p, ctx, 6, {}) end,
  },
}

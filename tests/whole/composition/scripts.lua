-- scripts.lua - a processor without state, one with state, and a stopping rule with state, for every mode. The last two also
-- as functions of the ids alone, for the slow way: what has no state cannot lose it.
local function begin() return { n = 0, last = -1 } end
local function accept(_, state, token)
  state.n = state.n + 1
  state.last = token
end

local function stateful(row, n_vocab, n, last)
  if last < 0 then return end
  for id = (last + n) % 4, n_vocab - 1, 4 do row[id] = row[id] - 9.0 end
end

local function enough(n, last) return n >= 9 and last % 3 == 0 and "enough" end

local function seen(ids, ctx)
  local n = #ids - ctx.prompt_len
  return n, n > 0 and ids[#ids] or -1
end

local function stateless(_, ids, row, ctx)
  for id = ids[#ids] % 5, ctx.n_vocab - 1, 5 do row[id] = row[id] - 9.0 end
end

local function every_third(_, ids, row, ctx)
  for id = ids[#ids] % 3, ctx.n_vocab - 1, 3 do row[id] = row[id] - 6.0 end
end

-- Two phases told from the ids alone: the first ends with the mark, which is forced when its tokens are spent.
local function phased(p, ids, row, ctx)
  local spent = 0
  for i = ctx.prompt_len + 1, #ids do
    if ids[i] == p.mark then return every_third(p, ids, row, ctx) end
    spent = spent + 1
  end
  if spent < p.budget then return stateless(p, ids, row, ctx) end
  for id = 0, ctx.n_vocab - 1 do row[id] = -math.huge end
  row[p.mark] = 0.0
end

-- The same edits of hidden states in obvious.lua, whose sequences are new ones.
local function edits(model)
  local v = vec.new(model.width)
  for i = 0, model.width - 1 do v[i] = ((i * 37) % 11 - 5) / 4 end
  return { { layer = model.n_layers - 1, vector = v, from = 4 }, { layer = 0, place = "mlp", op = "scale", scale = 0.5 },
    { layer = 1, op = "call", scale = 3, from = 3 } }
end

local function cap(h)
  for i = 1, #h do
    local norm = h[i]:norm()
    if norm > h.scale then h[i]:mul(h.scale / norm) end
  end
end

return {
  cadenza.processor { id = "test.steered", version = "1.0.0", steer = function(_, _, _, model) return edits(model) end,
    on_hidden = function(_, _, _, h) cap(h) end },
  cadenza.processor { id = "test.stateless", version = "1.0.0", apply = stateless },
  cadenza.processor { id = "test.every_third", version = "1.0.0", apply = every_third },
  cadenza.processor {
    id = "test.phased", version = "1.0.0", apply = phased,
    params = {
      mark = { 0, 0, 1e9, "the token that ends the first phase", integer = true },
      budget = { 0, 0, 1e9, "tokens of the first phase", integer = true },
    },
  },
  cadenza.processor {
    id = "test.stateful", version = "1.0.0", begin = begin, accept = accept,
    apply = function(_, _, row, ctx) stateful(row, ctx.n_vocab, ctx.state.n, ctx.state.last) end,
  },
  cadenza.processor {
    id = "test.counting", version = "1.0.0",
    apply = function(_, ids, row, ctx) stateful(row, ctx.n_vocab, seen(ids, ctx)) end,
  },
  cadenza.criterion {
    id = "test.enough", version = "1.0.0", begin = begin, accept = accept,
    test = function(_, _, ctx) return enough(ctx.state.n, ctx.state.last) end,
  },
  cadenza.criterion {
    id = "test.enough_by_ids", version = "1.0.0",
    test = function(_, ids, ctx) return enough(seen(ids, ctx)) end,
  },
}

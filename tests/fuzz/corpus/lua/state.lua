return cadenza.processor { params = { a = { 1, 0, 2, "h" }, w = { "x", "h", words = { "x", "y" } } },
  begin = function(ctx) return { n = 0, v = vec.new(4), b = bitset.new(8):set({ 1, 2 }), t = { { 1 } } } end,
  accept = function(p, state, token) state.n = state.n + p.a; state.v[1] = token; state.t[2] = state.t end,
  apply = function(p, ids, row, ctx)
    local s = ctx.state
    for k, v in pairs(s.t) do row:mask(s.t[1]) end
    row:where(bitset.new(16):set(ids), -1):softmax():cumsum()
    local i, v = row:topk(3)
    row[i[1]] = v[1] + ctx.rng:uniform() + #ids:sub(2, -2):totable()
  end }

-- scripts.lua - a processor without state, one with state, and a stopping rule with state, for every mode.
local function begin() return { n = 0, last = -1 } end
local function accept(_, state, token)
  state.n = state.n + 1
  state.last = token
end

return {
  cadenza.processor {
    id = "test.stateless", version = "1.0.0",
    apply = function(_, ids, row, ctx)
      for id = ids[#ids] % 5, ctx.n_vocab - 1, 5 do row[id] = row[id] - 9.0 end
    end,
  },
  cadenza.processor {
    id = "test.stateful", version = "1.0.0", begin = begin, accept = accept,
    apply = function(_, _, row, ctx)
      if ctx.state.last < 0 then return end
      for id = (ctx.state.last + ctx.state.n) % 4, ctx.n_vocab - 1, 4 do row[id] = row[id] - 9.0 end
    end,
  },
  cadenza.criterion {
    id = "test.enough", version = "1.0.0", begin = begin, accept = accept,
    test = function(_, _, ctx) return ctx.state.n >= 9 and ctx.state.last % 3 == 0 and "enough" end,
  },
}

-- scripts.lua - a processor without state, one with state, and a stopping rule with state, for every mode.
local function begin() return { n = 0, last = -1 } end
local function accept(_, state, token)
  state.n = state.n + 1
  state.last = token
end

return {
  cadenza.processor {
    id = "test.stateless", version = "1.0.0",
    apply = function(_, ids, row)
      row[845] = row[845] - 2.0
      row[ids[#ids]] = row[ids[#ids]] - 1.5
    end,
  },
  cadenza.processor {
    id = "test.stateful", version = "1.0.0", begin = begin, accept = accept,
    apply = function(_, _, row, ctx)
      if ctx.state.last >= 0 then row[ctx.state.last] = row[ctx.state.last] - 3.0 end
      if ctx.state.n % 3 == 1 then row[261] = row[261] - 2.5 end
    end,
  },
  cadenza.criterion {
    id = "test.enough", version = "1.0.0", begin = begin, accept = accept,
    test = function(_, _, ctx) return ctx.state.n >= 9 and ctx.state.last % 3 == 0 and "enough" end,
  },
}

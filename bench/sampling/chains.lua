-- chains.lua - the benchmark's chains as one Lua processor of bulk operations, chosen by number.
local chains = {
  function(row, ids) row:penalize(ids, "repetition", 1.1):temperature(0.8):keep_topk(50):keep_topp(0.95):keep_minp(0.05) end,
  function(row) row:temperature(0.8):keep_topk(50) end,
  function(row) row:temperature(0.8):keep_topp(0.9) end,
  function(row) row:temperature(0.8):keep_minp(0.05) end,
  function(row) row:temperature(0.8) end,
  function(row, ids) row:penalize(ids, "repetition", 1.1) end,
}

return cadenza.processor {
  id = "bench.chains", version = "1.0.0",
  params = { chain = { 1, 1, 6, "which", integer = true } },
  apply = function(p, ids, row) chains[p.chain](row, ids) end,
}

-- bulk.lua - four built-in processors in one script, by bulk operations: the benchmark's Lua side.
return cadenza.processor {
  id = "bench.bulk", version = "1.0.0",
  apply = function(p, ids, row)
    row:penalize(ids, "repetition", 1.1):temperature(0.8):keep_topk(50):keep_minp(0.05)
  end,
}

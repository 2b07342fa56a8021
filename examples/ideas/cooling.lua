-- cooling.lua - temperature falls and min-p rises with the position in the answer.
return cadenza.processor {
  id = "org.example.cooling", version = "1.0.0", sampling_only = true,
  params = {
    first = { 1.5, 0, 100, "temperature of the first token", above_min = true },
    last  = { 0.3, 0, 100, "and from `over` tokens on", above_min = true },
    min_p = { 0.2, 0, 1, "min-p from there on; none at the first token" },
    over  = { 20, 1, 1000000, "tokens", integer = true },
  },
  apply = function(p, ids, row, ctx)
    local way = math.min(1, (#ids - ctx.prompt_len) / p.over)
    row:temperature(p.first + (p.last - p.first) * way)
    if way > 0 then row:keep_minp(p.min_p * way) end
  end,
}

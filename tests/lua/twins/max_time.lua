-- max_time.lua - stop after some seconds, counted from before the prompt is computed and looked at after each token.
return cadenza.criterion {
  id = "max_time", version = "1.0.0", needs_clock = true,
  params = { max_time = { type = "number", optional = true, generation = true, help = "seconds, from before the prompt is computed" } },
  idle = function(p) return not p.max_time end,
  test = function(p, ids, ctx) return ctx.elapsed_s > p.max_time and "time" end,
}

-- bark_eos_prioritizer.lua - end a row as soon as its end is likely enough, as Bark's semantic model does.
local prob                                                  -- room for a row of probabilities

return cadenza.processor {
  id = "bark_eos_prioritizer", version = "1.0.0", needs_ids = false,
  params = { min_eos_p = { type = "number", optional = true, min = 0, above_min = true,
                           help = "an end-of-sequence token more probable than this is the only choice" } },
  idle = function(p, ctx) return not p.min_eos_p or #ctx.eos == 0 end,
  apply = function(p, ids, row, ctx)
    if not p.min_eos_p or #ctx.eos == 0 then return end
    local least = vec.from { p.min_eos_p }[0]                 -- as a float32, which probabilities are
    prob = prob and #prob == #row and prob or vec.new(#row)
    if prob:fill(row):softmax():get(ctx.eos):max() <= least then return end
    row:mask_except(ctx.eos)
  end,
}

-- repetition_penalty.lua - lower the scores of tokens that are already in the row.
return cadenza.processor {
  id = "repetition_penalty", version = "1.0.0", history_sparse = true,
  params = { repetition_penalty = { type = "number", optional = true, generation = true, min = 0, above_min = true,
                                    help = "scores of tokens in the row are divided by it; 1: off" },
             prompt_ignore_length = { 0, 0, help = "leading tokens that do not count", integer = true } },
  idle = function(p) return not p.repetition_penalty or p.repetition_penalty == 1 end,
  apply = function(p, ids, row)
    row:penalize(ids:sub(p.prompt_ignore_length + 1), "repetition", p.repetition_penalty)
  end,
}

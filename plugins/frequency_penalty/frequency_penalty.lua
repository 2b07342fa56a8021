-- frequency_penalty.lua - lower the score of a generated token by `frequency_penalty` for each time it was generated.
-- OpenAI's API reference: score - count * frequency_penalty. The prompt does not count.
return cadenza.processor {
  id = "frequency_penalty", version = "1.0.0", history_sparse = true,
  summary = "Lower the scores of generated tokens by how often they came",
  params = {
    frequency_penalty = { 0.5, -1e6, 1e6, "subtracted from the score for each use; below 0: repetitions are favoured" },
  },
  idle = function(p) return p.frequency_penalty == 0 end,
  apply = function(p, ids, row, ctx)
    if #ids > ctx.prompt_len then row:penalize(ids:sub(ctx.prompt_len + 1), "frequency", p.frequency_penalty) end
  end,
}

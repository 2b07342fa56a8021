-- encoder_repetition_penalty.lua - favour tokens of the prompt.
return cadenza.processor {
  id = "encoder_repetition_penalty", version = "1.0.0",
  params = { encoder_repetition_penalty = { type = "number", optional = true, generation = true, min = 0, above_min = true,
                                            help = "scores of the prompt's tokens are multiplied by it; 1: off" } },
  idle = function(p) return not p.encoder_repetition_penalty or p.encoder_repetition_penalty == 1 end,
  apply = function(p, ids, row, ctx)
    local prompt = ctx.prompts[(ctx.row - 1) * ctx.n_prompts // ctx.n_rows + 1]
    row:encoder_penalty(prompt, p.encoder_repetition_penalty)
  end,
}

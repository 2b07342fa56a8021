-- encoder_no_repeat_ngram_size.lua - copy no sequence of n tokens from the prompt.
return cadenza.processor {
  id = "encoder_no_repeat_ngram_size", version = "1.0.0",
  params = { encoder_no_repeat_ngram_size = { type = "integer", optional = true, generation = true,
                                              help = "length of the prompt's sequences that may not come again; 0: off" } },
  idle = function(p) return (p.encoder_no_repeat_ngram_size or 0) <= 0 end,
  apply = function(p, ids, row, ctx)
    local prompt = ctx.prompts[(ctx.row - 1) * ctx.n_prompts // ctx.n_rows + 1]
    row:ngram_ban(ids, p.encoder_no_repeat_ngram_size, prompt)
  end,
}

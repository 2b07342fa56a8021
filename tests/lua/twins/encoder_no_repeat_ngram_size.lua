-- encoder_no_repeat_ngram_size.lua - copy no sequence of n tokens from the prompt.
return cadenza.processor {
  id = "encoder_no_repeat_ngram_size", version = "1.0.0",
  params = { encoder_no_repeat_ngram_size = { type = "integer", optional = true, generation = true,
                                              help = "length of the prompt's sequences that may not come again; 0: off" } },
  idle = function(p) return (p.encoder_no_repeat_ngram_size or 0) <= 0 end,
  apply = function(p, ids, row, ctx)
    local n = p.encoder_no_repeat_ngram_size
    local prompt = ctx.prompts[(ctx.row - 1) * ctx.n_prompts // ctx.n_rows + 1]
    if n - 1 > #ids then return end
    for from = 1, #prompt - n + 1 do
      local same = 0
      while same < n - 1 and prompt[from + same] == ids[#ids - n + 2 + same] do same = same + 1 end
      if same == n - 1 then row:mask(prompt[from + n - 1]) end
    end
  end,
}

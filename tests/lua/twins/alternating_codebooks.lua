-- alternating_codebooks.lua - the tokens of two codebooks in turn, as Bark's coarse model writes them.
return cadenza.processor {
  id = "alternating_codebooks", version = "1.0.0",
  params = { input_start_len = { type = "integer", optional = true, min = 0, max = 2147483647,
                                 help = "ids before the first of a codebook; unset: the prompt's" },
             semantic_vocab_size = { 10000, 0, 2147483647, "ids below it belong to no codebook", integer = true },
             codebook_size = { 1024, 0, 2147483647, integer = true,
                               help = "ids of the first codebook, which follow those; the second has the rest" } },
  apply = function(p, ids, row, ctx)
    local n = #row
    local first = math.min(p.semantic_vocab_size, n)
    local second = math.min(p.semantic_vocab_size + p.codebook_size, n)
    local odd = (#ids - (p.input_start_len or ctx.prompt_len)) % 2 ~= 0
    row:slice(0, odd and second or first):fill(-math.huge)
    if not odd then row:slice(second, n - second):fill(-math.huge) end
  end,
}

-- no_repeat_ngram_size.lua - never complete a sequence of n tokens that the row already holds.
return cadenza.processor {
  id = "no_repeat_ngram_size", version = "1.0.0", history_sparse = true,
  params = { no_repeat_ngram_size = { type = "integer", optional = true, generation = true,
                                      help = "length of the sequences that may not come twice; 0: off" } },
  idle = function(p) return not p.no_repeat_ngram_size or p.no_repeat_ngram_size <= 0 end,
  apply = function(p, ids, row) row:ngram_ban(ids, p.no_repeat_ngram_size) end,
}

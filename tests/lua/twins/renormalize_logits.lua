-- renormalize_logits.lua - make the scores log-probabilities.
return cadenza.processor {
  id = "renormalize_logits", version = "1.0.0", needs_ids = false,
  params = { renormalize_logits = { type = "boolean", optional = true, generation = true,
                                    help = "log-probabilities after all processors" } },
  idle = function(p) return not p.renormalize_logits end,
  apply = function(p, ids, row) row:log_softmax() end,
}

-- eta_cutoff.lua - drop tokens less likely than a cut that follows the entropy.
return cadenza.processor {
  id = "eta_cutoff", version = "1.0.0", needs_ids = false, keeps_argmax = true, keeps_top = true, sampling_only = true,
  params = { eta_cutoff = { type = "number", optional = true, generation = true,
                            help = "probability a token must reach; outside 0 to 1: off" },
             min_tokens_to_keep = { 1, 1, help = "tokens left whatever eta_cutoff says", integer = true } },
  idle = function(p) return not p.eta_cutoff or p.eta_cutoff <= 0 or p.eta_cutoff >= 1 end,
  apply = function(p, ids, row) row:keep_eta(p.eta_cutoff, p.min_tokens_to_keep) end,
}

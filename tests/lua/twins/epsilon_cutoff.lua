-- epsilon_cutoff.lua - drop tokens less likely than epsilon.
return cadenza.processor {
  id = "epsilon_cutoff", version = "1.0.0", needs_ids = false, keeps_argmax = true, keeps_top = true, sampling_only = true,
  params = { epsilon_cutoff = { type = "number", optional = true, generation = true,
                            help = "probability a token must reach; outside 0 to 1: off" },
             min_tokens_to_keep = { 1, 1, help = "tokens left whatever epsilon_cutoff says", integer = true } },
  idle = function(p) return not p.epsilon_cutoff or p.epsilon_cutoff <= 0 or p.epsilon_cutoff >= 1 end,
  apply = function(p, ids, row) row:keep_epsilon(p.epsilon_cutoff, p.min_tokens_to_keep) end,
}

-- Lowers the best token and promises not to.
return cadenza.processor {
  id = "bad.plugin", version = "1.0.0", summary = "Lowers the best token", keeps_argmax = true,
  apply = function(p, ids, row)
    local best = row:argmax()
    row[best] = row[best] - 5
  end,
}

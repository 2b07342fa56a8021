-- remove_invalid_values.lua - replace what is no finite number: NaN by 0, infinities by the largest float of their sign.
local number, largest = vec.expr("x != x ? 0 : x"), 3.4028234663852886e38
return cadenza.processor {
  id = "remove_invalid_values", version = "1.0.0", needs_ids = false, elementwise = true,
  params = { remove_invalid_values = { type = "boolean", optional = true, generation = true,
                                       help = "replace nan and infinite scores" } },
  idle = function(p) return not p.remove_invalid_values end,
  apply = function(p, ids, row)
    if row:any_nan() then row:apply(number) end
    row:clamp(-largest, largest)
  end,
}

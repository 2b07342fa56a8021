-- late.lua - does nothing until a row has `at` tokens; then it fails.
return cadenza.processor {
  id = "org.example.late", version = "1.0.0",
  params = { at = { 8, 0, 100000, "tokens of a row at which it fails", integer = true } },
  apply = function(p, ids, row)
    if #ids >= p.at then error("failed at " .. #ids) end
  end,
}

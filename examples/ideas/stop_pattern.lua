-- stop_pattern.lua - stops where the text so far ends with a pattern.
return cadenza.criterion {
  id = "org.example.stop-pattern", version = "1.0.0", needs_ids = false,
  params = { pattern = { "%.%s*$", "a Lua pattern" }, tail = { 64, 1, 4096, "bytes that it sees", integer = true } },
  test = function(p, _, ctx)
    if ctx:text_tail(p.tail):find(p.pattern) then return "string" end
  end,
}

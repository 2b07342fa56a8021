-- my_processor.lua - lower the score of one token.
return cadenza.processor {
  id = "org.example.my-processor", version = "0.1.0",
  summary = "Lower the score of one token",
  params = { token   = { 0, 0, 2147483647, "id of the token", integer = true },
             penalty = { 1.0, 0, 1000, "taken from its score" } },
  apply = function(p, ids, row)            -- once per row; row is a view, indexed by token id from 0
    if p.token >= #row then error("token " .. p.token .. " is not in the vocabulary of " .. #row) end
    row[p.token] = row[p.token] - p.penalty
  end,
}

-- my_observer.lua - count the tokens of a request.
local tokens = 0                           -- the request's: each one loads the script anew

return cadenza.observer {
  id = "org.example.my-observer", version = "0.1.0",
  summary = "Count the tokens of a request",
  params = { each = { 0, 0, 1000000, "also say so after so many tokens; 0: only at the end", integer = true } },
  token = function(p, token, ctx)
    tokens = tokens + 1
    if p.each > 0 and tokens % p.each == 0 then print(("token %d is number %d"):format(token, tokens)) end
  end,
  finish = function(p, ctx)
    print(tokens .. " tokens")
  end,
}

-- empty.lua - what entering a script costs.
return cadenza.processor { id = "bench.empty", version = "1.0.0", apply = function() end }

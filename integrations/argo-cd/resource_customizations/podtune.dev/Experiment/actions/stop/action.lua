if obj.spec.stop == nil then
  obj.spec.stop = {}
end
obj.spec.stop.now = true
return obj

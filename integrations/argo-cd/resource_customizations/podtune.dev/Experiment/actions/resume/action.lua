-- One that has ended goes on when spec.resume.id changes, as `kubectl podtune resume` has it.
local ended = false
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if (condition.type == "Complete" or condition.type == "Failed") and condition.status == "True" then
      ended = true
    end
  end
end

if ended then
  local number = obj.spec.resume ~= nil and tonumber(obj.spec.resume.id) or 0
  obj.spec.resume = {id = tostring(number + 1)}
  if obj.spec.stop ~= nil then
    obj.spec.stop.now = nil
  end
end
obj.spec.suspend = false
return obj
